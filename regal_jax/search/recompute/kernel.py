"""The compiled loops of the search for a plan of recomputation, numba.

A plan beyond the limit is brought below it step by step (``reduce``): of the gaps whose tensors are
in memory at the peak, the one is dropped that takes most off what is beyond the limit for the work
that it adds; what its tensor is made from is dropped there, too, or kept, whichever is better. What
proves not to be needed is kept again (``prune``).
"""

from typing import NamedTuple

import numpy as np

from regal_jax.environments.recompute.kernel import (
    DROP,
    FLEETING,
    KEEP,
    memory,
    total_work,
    unrolled,
)
from regal_jax.native.compilation import inlined, jit
from regal_jax.native.random import below

MOST_CANDIDATES = 64
"""Gaps that are tried for each that is dropped."""


class Tally(NamedTuple):
    """What goes on from call to call.

    Attributes:
      spent: int64[1], evaluations. random: uint64[1].
    """

    spent: np.ndarray
    random: np.ndarray


class WorkSpace(NamedTuple):
    """To choose a gap with.

    Attributes:
      candidates: int64[T], gaps. here: int64[T], each tensor's gap at the peak, -1 for none.
      changed: int64[T], the gaps of what a dropped tensor is made from, kept with it; before:
        int8[T], what became of these.
    """

    candidates: np.ndarray
    here: np.ndarray
    changed: np.ndarray
    before: np.ndarray


def work_space(instance) -> WorkSpace:
    """Of an instance's sizes."""
    number = len(instance.producer)
    gaps = (np.zeros(number, np.int64) for _ in range(3))
    return WorkSpace(*gaps, np.zeros(number, np.int8))


@inlined
def _cost(instance, plan, scratch, limit, row):
    """(peak, its row, bytes beyond, work, runs); runs are -1 where there are too many."""
    count = unrolled(instance, plan, scratch)
    if count < 0:
        return np.int64(0), 0, np.int64(0), np.inf, count
    peak, at, beyond = memory(instance, scratch, count, limit, row)
    return peak, at, beyond, total_work(instance, scratch, count), count


@jit
def evaluate(instance, plan, scratch, limit):
    """(peak, bytes beyond the limit, work, runs) of a plan."""
    peak, _, beyond, work, count = _cost(instance, plan, scratch, limit, -1)
    return peak, beyond, work, count


@jit
def reduce(instance, plan, scratch, limit, space, noise, most, tally):
    """Drops gaps until the peak is within the limit; whether it is.

    Args:
      noise: how far scores are changed at random, 0 for not at all.
      most: evaluations to end at.
    """
    peak, at, beyond, work, count = _cost(instance, plan, scratch, limit, -1)
    while count >= 0 and peak > limit and tally.spent[0] < most:
        _cost(instance, plan, scratch, limit, at)
        turn = scratch.turn[at - 1] if at > 0 else 0
        number = _sampled(space, _at_peak(instance, plan, scratch, turn, space), tally)
        best, chosen, its_inputs = 0.0, -1, False
        for i in range(min(2 * number, most - tally.spent[0])):
            gap, with_inputs = space.candidates[i // 2], i % 2 == 1
            changed = _drop(instance, plan, gap, with_inputs, space)
            if changed > 0 or not with_inputs:
                _, _, less, more, runs = _cost(instance, plan, scratch, limit, -1)
                tally.spent[0] += 1
                if runs >= 0 and less < beyond:
                    score = (beyond - less) / (max(more - work, 0.0) + 1e-9 * work)
                    if noise > 0.0:
                        score *= 1.0 + noise * below(tally.random, 1000) / 1000.0
                    if score > best:
                        best, chosen, its_inputs = score, gap, with_inputs
            _undo(plan, gap, changed, space)
        if chosen < 0:
            return False
        _drop(instance, plan, chosen, its_inputs, space)
        peak, at, beyond, work, count = _cost(instance, plan, scratch, limit, -1)
    return count >= 0 and peak <= limit


@inlined
def _sampled(space, number, tally):
    """Puts at most MOST_CANDIDATES of so many first, at random; how many they are."""
    few = min(number, MOST_CANDIDATES)
    for i in range(few):
        other = i + below(tally.random, number - i)
        space.candidates[i], space.candidates[other] = space.candidates[other], space.candidates[i]
    return few


@inlined
def _drop(instance, plan, gap, with_inputs, space):
    """Drops a gap further; ``with_inputs`` keeps what its tensor is made from there.

    Returns how many gaps were changed besides.
    """
    plan[gap] += 1
    number = 0
    if with_inputs:
        op = instance.producer[instance.tensor[gap]]
        for i in range(instance.read_offsets[op], instance.read_offsets[op + 1]):
            other = space.here[instance.reads[i]]
            if other >= 0 and plan[other] != KEEP:
                space.changed[number] = other
                space.before[number] = plan[other]
                plan[other] = KEEP
                number += 1
    return number


@inlined
def _undo(plan, gap, number, space):
    for i in range(number):
        plan[space.changed[i]] = space.before[i]
    plan[gap] -= 1


@inlined
def _at_peak(instance, plan, scratch, turn, space):
    """Counts the gaps around a place in the base order whose tensors are ``live``."""
    uses = scratch.uses
    for tensor in range(len(uses)):
        uses[tensor] = 0
    for op in range(turn):
        for i in range(instance.read_offsets[op], instance.read_offsets[op + 1]):
            uses[instance.reads[i]] += 1
        for i in range(instance.made_offsets[op], instance.made_offsets[op + 1]):
            uses[instance.made[i]] += 1
    number = 0
    for tensor in range(len(uses)):
        gap = instance.gaps[tensor] + uses[tensor] - 1
        is_gap = uses[tensor] > 0 and gap < instance.gaps[tensor + 1]
        space.here[tensor] = gap if is_gap else -1
        if is_gap and scratch.live[tensor] and plan[gap] < FLEETING and instance.size[tensor] > 0:
            space.candidates[number] = gap
            number += 1
    return number


@jit
def prune(instance, plan, scratch, limit, most, tally):
    """Keeps what needn't be dropped, in a random order; the work then."""
    _, _, _, work, _ = _cost(instance, plan, scratch, limit, -1)
    if len(plan) == 0:
        return work
    start = below(tally.random, len(plan))
    step = 1 + below(tally.random, len(plan))
    while _divisor(step, len(plan)) > 1:
        step += 1
    for i in range(len(plan)):
        gap = (start + i * step) % len(plan)
        while plan[gap] != KEEP and tally.spent[0] < most:
            plan[gap] -= 1
            peak, _, _, less, count = _cost(instance, plan, scratch, limit, -1)
            tally.spent[0] += 1
            if count < 0 or peak > limit or less >= work:
                plan[gap] += 1
                break
            work = less
    return work


@inlined
def _divisor(one, other):
    while other > 0:
        one, other = other, one % other
    return one


@jit
def improve(instance, plan, best, scratch, limit, space, until_fits, most, tally):
    """Large neighbourhood search from a plan, ``best``; whether that is within the limit then.

    Again and again some of what is dropped is kept, in gaps next to each other or at random, a few
    other gaps are dropped, and the plan is brought back below the limit. Bytes beyond it count
    before work.

    Args:
      until_fits: whether the first plan within the limit will do.
      most: evaluations to end at.
    """
    _, _, beyond, least, _ = _cost(instance, best, scratch, limit, -1)
    while tally.spent[0] < most and len(plan) > 0 and not (until_fits and beyond == 0):
        _copy(best, plan)
        tally.spent[0] += 1
        _disturb(plan, tally)
        reduce(instance, plan, scratch, limit, space, 1.0, most, tally)
        _, _, left, work, count = _cost(instance, plan, scratch, limit, -1)
        if count >= 0 and left == 0:
            work = prune(instance, plan, scratch, limit, most, tally)
        if count >= 0 and (left < beyond or (left == beyond and work <= least)):
            beyond, least = left, work
            _copy(plan, best)
    return beyond == 0


@inlined
def _disturb(plan, tally):
    """Keeps some of what is dropped, and drops a few gaps."""
    size = 1 + below(tally.random, 1 + below(tally.random, 1 + len(plan) // 8))
    start = below(tally.random, len(plan))
    width = size if below(tally.random, 2) == 0 else len(plan)
    for _ in range(size):
        plan[(start + below(tally.random, width)) % len(plan)] = KEEP
    for _ in range(below(tally.random, 4)):
        plan[below(tally.random, len(plan))] = DROP


@inlined
def _copy(one, other):
    for i in range(len(one)):
        other[i] = one[i]

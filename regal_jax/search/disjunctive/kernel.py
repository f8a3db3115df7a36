"""The compiled loop of tabu search on machines that run one op at a time, numba.

A schedule is the sequence of ops of every machine; an op starts when its producers and the op
before it on its machine have ended. Its *head* is when it starts, its *tail* how long it takes from
its end to the end of all, at the earliest. Ops on one longest path are critical; a *block* is a run
of them on one machine. Only a move out of the inside of a block to its beginning or its end, or of
its first or last op into it, can shorten the schedule (Balas and Vazacopoulos, "Guided local search
with shifting bottleneck for job shop scheduling", Management Science 44, 1998; Zhang et al., "A
tabu search algorithm with a new neighborhood structure for the job shop scheduling problem",
Computers and Operations Research 34, 2007). A move's makespan is estimated by new heads and tails
of the ops that it passes; after it was made, all are computed anew.
"""

from typing import NamedTuple

import numpy as np

from regal_jax.native.compilation import inlined, jit
from regal_jax.native.random import below

NONE = -1

ENDS = 4
"""Kinds of moves at the ends of blocks."""
REACH = 50
"""Ops of a block that one may pass: all of a job shop's, mostly, but blocks of some graphs have
thousands, and looking at all moves would take their square."""


class Instance(NamedTuple):
    """O ops; rows are in CSR form.

    Attributes:
      duration: float64[O], us.
      slot: int32[O], an op's number among those of its machine.
      before_offsets, before: ops that an op waits for. after_offsets, after: that wait for it.
    """

    duration: np.ndarray
    slot: np.ndarray
    before_offsets: np.ndarray
    before: np.ndarray
    after_offsets: np.ndarray
    after: np.ndarray


class State(NamedTuple):
    """A schedule.

    Attributes:
      previous, following: int32[O], on the machine, or NONE.
      order: int32[O], of all ops, producers and previous ones first.
      head, tail: float64[O], us. makespan: float64[1].
    """

    previous: np.ndarray
    following: np.ndarray
    order: np.ndarray
    head: np.ndarray
    tail: np.ndarray
    makespan: np.ndarray


class Best(NamedTuple):
    """The shortest schedule: ``head`` and ``makespan`` of its State."""

    head: np.ndarray
    makespan: np.ndarray


class Scratch(NamedTuple):
    """Working arrays.

    Attributes:
      waiting: int32[O], what an op still waits for.
      path: int32[O], critical ops from the first to the last.
      sequence, chosen: int32[O], what a move, and the best of them, make of a part of a machine's
        sequence: one op goes behind all the others, or before them.
      head: float64[O], of the ops of ``sequence``.
      forbidden: int64[O, W], until when an op may not come before that of a slot.
    """

    waiting: np.ndarray
    path: np.ndarray
    sequence: np.ndarray
    chosen: np.ndarray
    head: np.ndarray
    forbidden: np.ndarray


class Tally(NamedTuple):
    """int64[1] each: moves made in all; those since the best was found; whether no move is left,
    as in an optimal schedule. random: uint64[1]."""

    spent: np.ndarray
    failures: np.ndarray
    is_stuck: np.ndarray
    random: np.ndarray


@jit
def timed(instance, state, scratch):
    """Heads, tails and the makespan; False if the sequences contradict precedence."""
    duration, order, waiting, count = instance.duration, state.order, scratch.waiting, 0
    num_ops = len(duration)
    for op in range(num_ops):
        first, last = instance.before_offsets[op], instance.before_offsets[op + 1]
        waiting[op] = last - first + (state.previous[op] >= 0)
        state.head[op] = 0.0
        if waiting[op] == 0:
            order[count] = op
            count += 1
    done, longest = 0, 0.0
    while done < count:
        op = order[done]
        done += 1
        end = state.head[op] + duration[op]
        longest = max(longest, end)
        for i in range(instance.after_offsets[op], instance.after_offsets[op + 1]):
            count = _released(instance.after[i], end, state, waiting, count)
        if state.following[op] >= 0:
            count = _released(state.following[op], end, state, waiting, count)
    if count < num_ops:
        return False
    for i in range(num_ops - 1, -1, -1):
        op = order[i]
        state.tail[op] = _tail(instance, state, op, state.following[op])
    state.makespan[0] = longest
    return True


@inlined
def _released(op, end, state, waiting, count):
    """An op that one before it has ended for; the number of those in order."""
    state.head[op] = max(state.head[op], end)
    waiting[op] -= 1
    if waiting[op] == 0:
        state.order[count] = op
        count += 1
    return count


@inlined
def _tail(instance, state, op, following):
    longest = 0.0
    if following >= 0:
        longest = instance.duration[following] + state.tail[following]
    for i in range(instance.after_offsets[op], instance.after_offsets[op + 1]):
        after = instance.after[i]
        longest = max(longest, instance.duration[after] + state.tail[after])
    return longest


@jit
def descend(instance, state, scratch, best, tally, tenure, patience, most):
    """Makes the best move that isn't forbidden, again and again, whether it gains or not.

    Args:
      best: gets the shortest schedule since ``failures`` was 0.
      tenure: moves for which one may not be undone; up to twice as many.
      patience: ends after so many moves without a shorter schedule; most: after so many in all.
    """
    while tally.failures[0] < patience and tally.spent[0] < most:
        count = _critical(instance, state, scratch, tally.random)
        size, is_after = _choose(instance, state, scratch, best.makespan[0], count, tally)
        if size == 0:
            tally.is_stuck[0] = 1
            return
        now = tally.spent[0]
        tally.spent[0] = now + 1
        until = now + tenure + below(tally.random, tenure + 1)
        _make(state, scratch.chosen, size, is_after)
        is_made = timed(instance, state, scratch)
        _forbid(instance, scratch, size, is_after, is_made, until)
        if not is_made:
            _undo(state, scratch, size, is_after)
            timed(instance, state, scratch)
        tally.failures[0] += 1
        if state.makespan[0] < best.makespan[0]:
            keep(state, best)
            tally.failures[0] = 0


@jit
def keep(state, best):
    """Copies a schedule's starts."""
    for op in range(len(state.head)):
        best.head[op] = state.head[op]
    best.makespan[0] = state.makespan[0]


@inlined
def _critical(instance, state, scratch, random):
    """Writes a longest path, one of several at random; its number of ops."""
    head, duration, path = state.head, instance.duration, scratch.path
    op, seen = NONE, 0
    for last in range(len(duration)):
        if head[last] + duration[last] == state.makespan[0]:
            seen += 1
            if below(random, seen) == 0:
                op = last
    count = 0
    while op >= 0:
        path[count] = op
        count += 1
        op = _critical_before(instance, state, op, random)
    for i in range(count // 2):
        path[i], path[count - 1 - i] = path[count - 1 - i], path[i]
    return count


@inlined
def _critical_before(instance, state, op, random):
    """What an op started right after, one of several at random; NONE at the beginning."""
    head, found, seen = state.head, NONE, 0
    previous = state.previous[op]
    if previous >= 0 and head[previous] + instance.duration[previous] == head[op]:
        found, seen = previous, 1
    for i in range(instance.before_offsets[op], instance.before_offsets[op + 1]):
        before = instance.before[i]
        if head[before] + instance.duration[before] == head[op]:
            seen += 1
            if below(random, seen) == 0:
                found = before
    return found


@inlined
def _choose(instance, state, scratch, shortest, count, tally):
    """Writes what the best move of a critical path makes of a machine's sequence: (how many ops,
    whether one goes behind the others); none if there is no move.

    A forbidden move counts where it is expected to be shorter than ever, or where all are
    forbidden: then one of them at random. Without any move at the ends of blocks neighbours within
    them change places.
    """
    path, kinds = scratch.path, 0
    chosen = (np.inf, 0, 0, 0, False)
    while chosen[3] == 0 and kinds <= ENDS:
        first = 0
        while first < count:
            last = first
            while last + 1 < count and state.following[path[last]] == path[last + 1]:
                last += 1
            for kind in range(kinds, max(kinds + 1, ENDS)):
                chosen = _of_block(
                    instance, state, scratch, shortest, tally, (first, last, kind), chosen
                )
            first = last + 1
        kinds += ENDS
    return chosen[3], chosen[4]


@inlined
def _of_block(instance, state, scratch, shortest, tally, block, chosen):
    """The better of a move and those of a kind in a block: (its makespan, how many there are of
    that, and of forbidden ones, its size, whether it goes behind)."""
    first, last, kind = block
    cost, equal, others, chosen_size, chosen_after = chosen
    for distance in range((last - first if kind == ENDS else min(last - first, REACH)) + 1):
        i = last - distance if kind == 0 or kind == 3 else first + distance
        op, target, is_after = _move(scratch.path, first, last, i, kind)
        if op == target or not _is_possible(instance, state, op, target, is_after):
            continue
        size = _sequence(state, scratch.sequence, op, target, is_after)
        expected = _expected(instance, state, scratch, size, is_after)
        forbidden = _is_forbidden(instance, scratch, size, is_after, tally.spent[0])
        if forbidden and expected >= shortest:
            others += 1
            is_better = cost == np.inf and below(tally.random, others) == 0
        elif expected == cost:
            equal += 1
            is_better = below(tally.random, equal) == 0
        else:
            is_better = expected < cost
            if is_better:
                cost, equal = expected, 1
        if is_better:
            chosen_size, chosen_after = size, is_after
            for j in range(size):
                scratch.chosen[j] = scratch.sequence[j]
    return cost, equal, others, chosen_size, chosen_after


@inlined
def _move(path, first, last, i, kind):
    """(op, target, whether it goes behind the target): of a block, with one of its ops, its move
    to the end, to the beginning, or the first op behind it, the last before it, or it behind the
    next one (ENDS)."""
    if kind == ENDS:
        return path[i], path[min(i + 1, last)], True
    if kind == 0:
        return path[i], path[last], True
    if kind == 1:
        return path[i], path[first], False
    inside = first < i < last
    if kind == 2:
        return path[first], path[i] if inside else path[first], True
    return path[last], path[i] if inside else path[last], False


@inlined
def _is_possible(instance, state, op, target, is_after):
    """Whether a move surely keeps precedence: nothing that waits for the op ends before the target
    must, or the reverse. Neighbours may change places unless one waits for the other."""
    duration = instance.duration
    if is_after:
        near, least = state.following[op] == target, state.tail[target] + duration[target]
        for i in range(instance.after_offsets[op], instance.after_offsets[op + 1]):
            after = instance.after[i]
            if after == target or not (near or state.tail[after] + duration[after] <= least):
                return False
    else:
        near, least = state.previous[op] == target, state.head[target] + duration[target]
        for i in range(instance.before_offsets[op], instance.before_offsets[op + 1]):
            before = instance.before[i]
            if before == target or not (near or state.head[before] + duration[before] <= least):
                return False
    return True


@inlined
def _sequence(state, sequence, op, target, is_after):
    """Writes the ops from the one to the other as a move arranges them; their number."""
    size = 0
    if is_after:
        passed = state.following[op]
        while True:
            sequence[size] = passed
            size += 1
            if passed == target:
                break
            passed = state.following[passed]
        sequence[size] = op
        return size + 1
    sequence[0] = op
    passed = target
    while passed != op:
        size += 1
        sequence[size] = passed
        passed = state.following[passed]
    return size + 1


@inlined
def _ends(state, sequence, size, is_after):
    """What is before and behind the ops of a move that wasn't made yet."""
    if is_after:
        return state.previous[sequence[size - 1]], state.following[sequence[size - 2]]
    return state.previous[sequence[1]], state.following[sequence[0]]


@inlined
def _expected(instance, state, scratch, size, is_after):
    """About the makespan of ``sequence``: the longest path through any of its ops."""
    duration, sequence = instance.duration, scratch.sequence
    previous, following = _ends(state, sequence, size, is_after)
    ready = state.head[previous] + duration[previous] if previous >= 0 else 0.0
    for j in range(size):
        op = sequence[j]
        for i in range(instance.before_offsets[op], instance.before_offsets[op + 1]):
            before = instance.before[i]
            ready = max(ready, state.head[before] + duration[before])
        scratch.head[j] = ready
        ready += duration[op]
    longest = 0.0
    rest = state.tail[following] + duration[following] if following >= 0 else 0.0
    for j in range(size - 1, -1, -1):
        op = sequence[j]
        for i in range(instance.after_offsets[op], instance.after_offsets[op + 1]):
            after = instance.after[i]
            rest = max(rest, state.tail[after] + duration[after])
        rest += duration[op]
        longest = max(longest, scratch.head[j] + rest)
    return longest


@inlined
def _pair(sequence, size, is_after, j):
    """One of the pairs of ops that a move brings in an order: which is before which."""
    if is_after:
        return sequence[j], sequence[size - 1]
    return sequence[0], sequence[j + 1]


@inlined
def _is_forbidden(instance, scratch, size, is_after, now):
    """Whether an op would come before one that it may not."""
    for j in range(size - 1):
        one, other = _pair(scratch.sequence, size, is_after, j)
        if scratch.forbidden[one, instance.slot[other]] > now:
            return True
    return False


@inlined
def _forbid(instance, scratch, size, is_after, is_made, until):
    """The reverse of a move that was made is forbidden until then, or one that can't be made."""
    for j in range(size - 1):
        one, other = _pair(scratch.chosen, size, is_after, j)
        if is_made:
            one, other = other, one
        scratch.forbidden[one, instance.slot[other]] = until


@inlined
def _make(state, chosen, size, is_after):
    previous, following = _ends(state, chosen, size, is_after)
    _link(state, chosen, size, previous, following)


@inlined
def _undo(state, scratch, size, is_after):
    """Brings back what a move has changed."""
    chosen, sequence = scratch.chosen, scratch.sequence
    previous, following = state.previous[chosen[0]], state.following[chosen[size - 1]]
    for j in range(size):
        sequence[j] = chosen[(j + size - 1) % size] if is_after else chosen[(j + 1) % size]
    _link(state, sequence, size, previous, following)


@inlined
def _link(state, sequence, size, previous, following):
    """Puts ops between two of their machine, or NONE."""
    for j in range(size):
        op = sequence[j]
        state.previous[op] = previous
        if previous >= 0:
            state.following[previous] = op
        previous = op
    state.following[previous] = following
    if following >= 0:
        state.previous[following] = previous

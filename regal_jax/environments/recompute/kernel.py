"""What a plan of recomputation needs: its runs, their peak memory and their work, numba.

Ops stand in a base order, in which each runs once. Between two uses of a tensor in that order (its
making, and each reader) lies a gap, behind the last use another one. A plan says of every gap what
becomes of the tensor there: it is kept (KEEP); it is dropped, and if anything reads it in the gap,
made again and kept from there on (DROP), or made again each time (FLEETING). Where an op reads what
isn't there, the ops that make it run again right before, and before them those they need.
"""

from typing import NamedTuple

import numpy as np

from regal_jax.native.compilation import inlined

KEEP, DROP, FLEETING = 0, 1, 2
"""What becomes of a tensor in a gap."""


class Instance(NamedTuple):
    """A graph whose ops stand in a base order: O ops, T tensors, G gaps.

    Attributes:
      read_offsets, reads: rows of the tensors that each op reads; made_offsets, made: and makes.
      producer: int32[T], -1 for what is there from the start. size: int64[T], bytes.
      persistent: bool[T], never freed.
      workspace: int64[O], bytes. work: float64[O], of a run.
      gaps: int64[T + 1]; of tensor t they are gaps[t], ..., gaps[t + 1] - 1, the last one behind
        its last use. None for tensors that are never dropped.
      tensor: int32[G], of each gap.
    """

    read_offsets: np.ndarray
    reads: np.ndarray
    made_offsets: np.ndarray
    made: np.ndarray
    producer: np.ndarray
    size: np.ndarray
    persistent: np.ndarray
    workspace: np.ndarray
    work: np.ndarray
    gaps: np.ndarray
    tensor: np.ndarray


class Scratch(NamedTuple):
    """To work with, R being more runs than any plan may have.

    Attributes:
      runs: int32[R], the ops as they run; turn: int32[R], the place in the base order they run for.
      change: int64[R + 2], bytes more than at the step before; the start, then run by run.
      there: bool[T], in memory if anything reads it. uses: int32[T], of the base order so far.
      since, until: int32[T], the rows of the latest making and its last reader, -1 for none.
      stack: int32[O]. remade: int32[T], tensors of the runs for one place.
      live: bool[T], in memory at a row that is asked for.
    """

    runs: np.ndarray
    turn: np.ndarray
    change: np.ndarray
    there: np.ndarray
    uses: np.ndarray
    since: np.ndarray
    until: np.ndarray
    stack: np.ndarray
    remade: np.ndarray
    live: np.ndarray


@inlined
def unrolled(instance, plan, scratch):
    """The number of ``runs`` of a plan; -1 if there are too many."""
    there, uses, runs, turn = scratch.there, scratch.uses, scratch.runs, scratch.turn
    for tensor in range(len(there)):
        there[tensor] = instance.producer[tensor] < 0
        uses[tensor] = 0
    count = 0
    for op in range(len(instance.work)):
        remade = 0
        top = 0
        scratch.stack[0] = op
        while top >= 0:
            now = scratch.stack[top]
            missing = -1
            for i in range(instance.read_offsets[now], instance.read_offsets[now + 1]):
                if not there[instance.reads[i]]:
                    missing = instance.producer[instance.reads[i]]
                    break
            if missing >= 0:
                top += 1
                scratch.stack[top] = missing
                continue
            if count == len(runs):
                return -1
            runs[count] = now
            turn[count] = op
            count += 1
            top -= 1
            for i in range(instance.made_offsets[now], instance.made_offsets[now + 1]):
                tensor = instance.made[i]
                if not there[tensor] and now != op:
                    scratch.remade[remade] = tensor
                    remade += 1
                there[tensor] = True
        for i in range(instance.read_offsets[op], instance.read_offsets[op + 1]):
            _use(instance, plan, scratch, instance.reads[i])
        for i in range(instance.made_offsets[op], instance.made_offsets[op + 1]):
            _use(instance, plan, scratch, instance.made[i])
        for i in range(remade):
            tensor = scratch.remade[i]
            first = instance.gaps[tensor]
            if first < instance.gaps[tensor + 1]:
                there[tensor] = there[tensor] and plan[first + uses[tensor] - 1] != FLEETING
    return count


@inlined
def _use(instance, plan, scratch, tensor):
    """Goes on to the gap behind a use."""
    first = instance.gaps[tensor]
    if first < instance.gaps[tensor + 1]:
        scratch.there[tensor] = plan[first + scratch.uses[tensor]] == KEEP
        scratch.uses[tensor] += 1


@inlined
def memory(instance, scratch, count, limit, row):
    """(peak, its row, bytes beyond the limit) of so many runs; the last are summed over places in
    the base order, the most in the runs for each.

    Row 0 is the start, row i + 1 run i. ``live`` says afterwards what is in memory at ``row``, if
    one is given (-1 is none).
    """
    since, until, change = scratch.since, scratch.until, scratch.change
    for i in range(count + 2):
        change[i] = 0
    for tensor in range(len(since)):
        given = instance.producer[tensor] < 0
        since[tensor] = 0 if given else -1
        until[tensor] = -1
        scratch.live[tensor] = False
    for i in range(count):
        op = scratch.runs[i]
        for k in range(instance.read_offsets[op], instance.read_offsets[op + 1]):
            until[instance.reads[k]] = i + 1
        for k in range(instance.made_offsets[op], instance.made_offsets[op + 1]):
            tensor = instance.made[k]
            if since[tensor] >= 0:
                if instance.persistent[tensor]:
                    continue
                _end(instance, scratch, tensor, row)
            since[tensor] = i + 1
            until[tensor] = i + 1
    for tensor in range(len(since)):
        if since[tensor] >= 0:
            if instance.persistent[tensor]:
                until[tensor] = count
            if until[tensor] >= 0:
                _end(instance, scratch, tensor, row)
    peak = now = change[0]
    at, most, beyond = 0, np.int64(0), np.int64(0)
    for i in range(count):
        now += change[i + 1]
        use = now + instance.workspace[scratch.runs[i]]
        if use > peak:
            peak = use
            at = i + 1
        most = max(most, use - limit)
        if scratch.runs[i] == scratch.turn[i]:
            beyond += most
            most = np.int64(0)
    return peak, at, beyond


@inlined
def _end(instance, scratch, tensor, row):
    """Counts what the latest making of a tensor holds."""
    first, last = scratch.since[tensor], scratch.until[tensor]
    scratch.change[first] += instance.size[tensor]
    scratch.change[last + 1] -= instance.size[tensor]
    if first <= row <= last:
        scratch.live[tensor] = True


@inlined
def total_work(instance, scratch, count):
    """Of so many runs."""
    work = 0.0
    for i in range(count):
        work += instance.work[scratch.runs[i]]
    return work

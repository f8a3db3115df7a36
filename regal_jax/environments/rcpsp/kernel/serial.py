"""Serial generation: op by op, each as early as possible."""

from typing import NamedTuple

import numpy as np
from numba import types

from regal_jax.environments.rcpsp.kernel.buffers import arguments, output_arrays, unpack, write
from regal_jax.environments.rcpsp.kernel.priorities import assign_ranks, order_arrays, sort
from regal_jax.native import bits, bridge
from regal_jax.native.compilation import inlined, inlined_with_arrays, jit, jit_with_arrays
from regal_jax.native.packing import array, floats, narrow, wide


class Serial(NamedTuple):
    """Working arrays of serial generation."""

    rank: np.ndarray  # int32[O], by priority
    op_at: np.ndarray  # int32[O], the op of a rank
    waiting: np.ndarray  # int32[O], predecessors without a start time
    release: np.ndarray  # float64[O], the last finish time of the others
    ready: np.ndarray  # int64[O / 64], a bit a rank
    event_time: np.ndarray  # float64[2 S + 2 M], see _insert
    event_free: np.ndarray  # int64[2 S + 2 M], units
    num_events: np.ndarray  # int64[M]


@jit_with_arrays
def evaluate(packed, genes, shape, scratch, results):
    """Schedules a batch of chromosomes; see the package."""
    graph = unpack(packed)
    rows = array(genes, shape, np.int32)
    order, at = order_arrays(graph, scratch)
    outputs, at = output_arrays(graph, shape[0], results, at)
    _fill(graph, rows, order, _arrays(graph, at), outputs)


def handle(frame):
    """The FFI handler of ``evaluate``."""
    if bridge.is_call(frame):
        evaluate(*arguments(frame))
    return types.uintp(0)


@jit
def _fill(graph, rows, order, scratch, outputs):
    for row in range(len(rows)):
        sort(rows[row], order)
        write(row, _schedule(graph, order.keys, scratch, outputs[3]), outputs)


@inlined
def _schedule(graph, keys, scratch, start):
    """The eligible op of highest priority, again and again, as early as its type has room."""
    assign_ranks(keys, scratch.rank, scratch.op_at)
    ready, first, makespan = scratch.ready, np.int64(0), 0.0
    ready[:] = 0
    for machine in range(len(graph.capacity)):
        base = _first_event(graph, machine)
        scratch.event_time[base] = 0.0
        scratch.event_free[base] = graph.capacity[machine]
        scratch.num_events[machine] = 1
    for op in range(len(graph.duration)):
        scratch.release[op] = 0.0
        scratch.waiting[op] = graph.num_dependencies[op]
        if graph.num_dependencies[op] == 0:
            first = min(first, bits.add(ready, scratch.rank[op]))
    for _ in range(len(graph.duration)):
        while ready[first] == 0:
            first += 1
        chosen = np.int64(scratch.op_at[64 * first + bits.lowest(ready[first])])
        ready[first] &= ready[first] - 1
        start[chosen] = _insert(graph, chosen, scratch)
        end = start[chosen] + graph.duration[chosen]
        makespan = max(makespan, end)
        for i in range(graph.successor_offsets[chosen], graph.successor_offsets[chosen + 1]):
            successor = np.int64(graph.successors[i])
            scratch.release[successor] = max(scratch.release[successor], end)
            scratch.waiting[successor] -= 1
            if scratch.waiting[successor] == 0:
                first = min(first, bits.add(ready, scratch.rank[successor]))
    return makespan


@inlined
def _first_event(graph, machine):
    return 2 * (np.int64(graph.slot_offsets[machine]) + machine)


@inlined
def _insert(graph, op, scratch):
    """Takes the op's units at the earliest time with room for all its duration; returns the time.

    A type's profile is a list of events, by time: from event i until the next, ``event_free[i]``
    units are free (neighbours differ; after the last, all). An op of no duration needs no room.
    """
    machine = np.int64(graph.machine[op])
    demand, time = graph.demand[op], scratch.release[op]
    base = _first_event(graph, machine)
    times, free = scratch.event_time[base:], scratch.event_free[base:]
    count = scratch.num_events[machine]
    event = _last_until(times, count, time)
    while True:
        end = time + graph.duration[op]
        past = event
        while past < count and times[past] < end and free[past] >= demand:
            past += 1
        if end <= time or past == count or times[past] >= end:
            break
        event = past + 1
        while free[event] < demand:
            event += 1
        time = times[event]
    if demand > 0 and end > time:
        scratch.num_events[machine] = _take(times, free, count, event, past, time, end, demand)
    return time


@inlined
def _last_until(times, count, time):
    """The last event that is not after a time (the first event is at 0)."""
    low, high = np.int64(0), count
    while high - low > 1:
        middle = (low + high) >> 1
        if times[middle] <= time:
            low = middle
        else:
            high = middle
    return low


@inlined
def _take(times, free, count, event, past, time, end, demand):
    """Lowers the profile in [time, end); events ``event..past - 1`` meet it. Returns their count.

    Neighbours within the interval go on to differ; at its ends events come up, or go because the
    units on both sides are now the same.
    """
    if past == count or times[past] > end:
        count = _open(times, free, count, past)
        times[past], free[past] = end, free[past - 1]
    elif free[past] == free[past - 1] - demand:
        count = _close(times, free, count, past)
    if times[event] < time:
        count = _open(times, free, count, event + 1)
        event, past = event + 1, past + 1
        times[event], free[event] = time, free[event - 1]
    for i in range(event, past):
        free[i] -= demand
    if event > 0 and free[event] == free[event - 1]:
        count = _close(times, free, count, event)
    return count


@inlined
def _open(times, free, count, at):
    """Moves the events from ``at`` on by one; returns their new number."""
    for i in range(count, at, -1):
        times[i] = times[i - 1]
        free[i] = free[i - 1]
    return count + 1


@inlined
def _close(times, free, count, at):
    """Takes event ``at`` away; returns the new number of events."""
    for i in range(at, count - 1):
        times[i] = times[i + 1]
        free[i] = free[i + 1]
    return count - 1


@inlined_with_arrays
def _arrays(graph, at):
    num_ops, num_types = len(graph.duration), len(graph.capacity)
    num_events = 2 * (np.int64(graph.slot_offsets[num_types]) + num_types)
    rank, at = narrow(at, num_ops)
    op_at, at = narrow(at, num_ops)
    waiting, at = narrow(at, num_ops)
    release, at = floats(at, num_ops)
    ready, at = wide(at, (num_ops + 63) // 64)
    event_time, at = floats(at, num_events)
    event_free, at = wide(at, num_events)
    counts, at = wide(at, num_types)
    return Serial(rank, op_at, waiting, release, ready, event_time, event_free, counts)

"""Parallel generation: whatever fits starts, at each finish time."""

from typing import NamedTuple

import numpy as np
from numba import types

from regal_jax.environments.rcpsp.kernel.buffers import (
    MOST_HELD,
    arguments,
    output_arrays,
    unpack,
    write,
)
from regal_jax.environments.rcpsp.kernel.priorities import order_arrays, sort
from regal_jax.native import bits, bridge, heap
from regal_jax.native.compilation import inlined, inlined_with_arrays, jit, jit_with_arrays
from regal_jax.native.packing import array, floats, narrow, wide


class Parallel(NamedTuple):
    """Working arrays of parallel generation; slots as in MachineColumns."""

    slot: np.ndarray  # int32[O]
    op_at: np.ndarray  # int32[S], the op of a slot
    demand_at: np.ndarray  # int64[S], its demand
    waiting: np.ndarray  # int32[O], predecessors that have not ended
    free: np.ndarray  # int64[M], units
    ready: np.ndarray  # int64[S / 64], a bit a slot; 0 between chromosomes
    least: np.ndarray  # int64[S / 64], no ready op of the word demands less
    summary: np.ndarray  # int64[M + S / 4096 + 1], a bit a word of ``ready``; 0 between chromosomes
    touched: np.ndarray  # int32[M + 1], types with newly free units or newly ready ops
    is_touched: np.ndarray  # int32[M], 0 or 1; 0 between chromosomes
    end_time: np.ndarray  # float64[O + 1], min-heap of finish times
    end_op: np.ndarray  # int32[O + 1], their ops


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
    scratch.ready[:] = 0
    scratch.summary[:] = 0
    scratch.is_touched[:] = 0
    for row in range(len(rows)):
        sort(rows[row], order)
        write(row, _schedule(graph, order.keys, scratch, outputs[3]), outputs)


@inlined
def _schedule(graph, keys, scratch, start):
    """At each decision time all ready ops in decreasing priority start that still fit.

    The next decision time is the next finish time, which is the same time again if an op of no
    duration has started; all ops that end then are released before anything starts.
    """
    _assign_slots(graph, keys, scratch)
    times, ops = scratch.end_time, scratch.end_op
    running, time = np.int64(0), 0.0
    touched = _release_sources(graph, scratch)
    while True:
        for i in range(touched):
            machine = np.int64(scratch.touched[i])
            scratch.is_touched[machine] = 0
            running = _start_fitting(graph, machine, time, scratch, start, running)
        if running == 0:
            return time
        time = times[0]
        touched = np.int64(0)
        while running > 0 and times[0] == time:
            op, running = heap.pop(times, ops, running)
            touched = _end(graph, op, scratch, touched)


@inlined
def _assign_slots(graph, keys, scratch):
    free = scratch.free
    for machine in range(len(free)):
        free[machine] = graph.slot_offsets[machine]
    for i in range(len(graph.duration)):
        op = keys[i] & 0xFFFFFFFF
        of_op = graph.machine[op]
        slot = free[of_op]
        free[of_op] = slot + 1
        scratch.slot[op] = slot
        scratch.op_at[slot] = op
        scratch.demand_at[slot] = graph.demand[op]
    for machine in range(len(free)):
        free[machine] = graph.capacity[machine]


@inlined
def _release_sources(graph, scratch):
    touched = np.int64(0)
    for op in range(len(graph.duration)):
        waiting = graph.num_dependencies[op]
        scratch.waiting[op] = waiting
        if waiting == 0:
            touched = _make_ready(graph, op, scratch, touched)
    return touched


@inlined
def _make_ready(graph, op, scratch, touched):
    machine, slot = np.int64(graph.machine[op]), np.int64(scratch.slot[op])
    word = slot >> 6
    least = graph.demand[op]
    if scratch.ready[word] != 0:
        least = min(least, scratch.least[word])
    scratch.least[word] = least
    scratch.ready[word] |= bits.bit(slot)
    first = np.int64(graph.slot_offsets[machine]) >> 6
    summary = machine + (first >> 6) + ((word - first) >> 6)
    scratch.summary[summary] |= bits.bit(word - first)
    return _touch(machine, scratch, touched)


@inlined
def _touch(machine, scratch, touched):
    scratch.touched[touched] = machine
    touched += 1 - scratch.is_touched[machine]
    scratch.is_touched[machine] = 1
    return touched


@inlined
def _start_fitting(graph, machine, time, scratch, start, running):
    """Goes through the ready ops of a type until no op of the type could fit any more.

    Words are left out if even the smallest demand in them is too much.
    """
    free, least = scratch.free[machine], graph.least[machine]
    first = np.int64(graph.slot_offsets[machine]) >> 6
    last = np.int64(graph.slot_offsets[machine + 1]) >> 6
    base = machine + (first >> 6)
    for block in range((last - first + 63) >> 6):
        words = scratch.summary[base + block]
        while words != 0 and free >= least:
            place: int = bits.lowest(words)
            words &= words - 1
            word = first + 64 * block + place
            if scratch.least[word] > free:
                continue
            slots, smallest = scratch.ready[word], MOST_HELD
            while slots != 0 and free >= least:
                slot = 64 * word + bits.lowest(slots)
                bit = slots & -slots
                slots ^= bit
                demand = scratch.demand_at[slot]
                if demand <= free:
                    free -= demand
                    scratch.ready[word] ^= bit
                    op = np.int64(scratch.op_at[slot])
                    start[op] = time
                    end = time + graph.duration[op]
                    running = heap.push(scratch.end_time, scratch.end_op, running, end, op)
                else:
                    smallest = min(smallest, demand)
            if slots == 0:
                scratch.least[word] = smallest
            if scratch.ready[word] == 0:
                scratch.summary[base + block] &= ~bits.bit(place)
    scratch.free[machine] = free
    return running


@inlined
def _end(graph, op, scratch, touched):
    machine = np.int64(graph.machine[op])
    scratch.free[machine] += graph.demand[op]
    touched = _touch(machine, scratch, touched)
    for i in range(graph.successor_offsets[op], graph.successor_offsets[op + 1]):
        successor = np.int64(graph.successors[i])
        waiting = scratch.waiting[successor] - 1
        scratch.waiting[successor] = waiting
        if waiting == 0:
            touched = _make_ready(graph, successor, scratch, touched)
    return touched


@inlined_with_arrays
def _arrays(graph, at):
    num_ops, num_types = len(graph.duration), len(graph.capacity)
    num_slots = np.int64(graph.slot_offsets[num_types])
    slot, at = narrow(at, num_ops)
    op_at, at = narrow(at, num_slots)
    demand_at, at = wide(at, num_slots)
    waiting, at = narrow(at, num_ops)
    free, at = wide(at, num_types)
    ready, at = wide(at, num_slots // 64)
    least, at = wide(at, num_slots // 64)
    summary, at = wide(at, num_types + num_slots // 4096 + 1)
    touched, at = narrow(at, num_types + 1)
    is_touched, at = narrow(at, num_types)
    times, at = floats(at, num_ops + 1)
    ops, at = narrow(at, num_ops + 1)
    counts = (waiting, free)
    bits = (ready, least, summary)
    return Parallel(slot, op_at, demand_at, *counts, *bits, touched, is_touched, times, ops)

"""Lookahead generation: parallel generation in which units may be held for ops to come."""

from typing import NamedTuple

import numpy as np
from numba import types

from regal_jax.environments.bit_order import SMALLEST_NORMAL
from regal_jax.environments.rcpsp.kernel.buffers import (
    MOST_HELD,
    arguments,
    output_arrays,
    unpack,
    write,
)
from regal_jax.environments.rcpsp.kernel.priorities import assign_ranks, order_arrays, sort
from regal_jax.native import bits, bridge, heap
from regal_jax.native.compilation import inlined, inlined_with_arrays, jit, jit_with_arrays
from regal_jax.native.packing import array, floats, narrow, wide


class Lookahead(NamedTuple):
    """Working arrays of lookahead generation."""

    rank: np.ndarray  # int32[O], by priority
    op_at: np.ndarray  # int32[O], the op of a rank
    waiting: np.ndarray  # int32[O], predecessors that have not ended
    unstarted: np.ndarray  # int32[O], predecessors that have not started
    release: np.ndarray  # float64[O], the last finish time of the others
    ready: np.ndarray  # int64[M * O / 64], a bit a rank for each type: ready, without a window
    least: np.ndarray  # int64[M * O / 64], no op of the word of ``ready`` demands less
    holders: np.ndarray  # int64[M * O / 64], candidates with a window
    todo: np.ndarray  # int64[O / 64], a bit a rank; 0 between decision times
    end_time: np.ndarray  # float64[O + 1], min-heap of finish times
    end_op: np.ndarray  # int32[O + 1], their ops


class Units(NamedTuple):
    """Who has a type's units in lookahead generation. A type's lists begin at its first slot."""

    free: np.ndarray  # int64[M], units
    running_end: np.ndarray  # float64[S], the running ops' finish times, sorted
    running_demand: np.ndarray  # int64[S]
    first_running: np.ndarray  # int64[M], where the running ops begin
    past_running: np.ndarray  # int64[M], and end
    hold_until: np.ndarray  # float64[S], when the op that holds could start
    hold_demand: np.ndarray  # int64[S]
    past_holds: np.ndarray  # int64[M], where the holds end
    held: np.ndarray  # int64[M], units held in all
    first_until: np.ndarray  # float64[M], the earliest ``hold_until``


@jit_with_arrays
def evaluate(packed, genes, shape, scratch, results):
    """Schedules a batch of chromosomes; see the package."""
    graph = unpack(packed)
    rows = (array(genes, shape, np.float32), array(genes, shape, np.int32))
    order, at = order_arrays(graph, scratch)
    outputs, at = output_arrays(graph, shape[0], results, at)
    arrays, at = _arrays(graph, at)
    _fill(graph, rows, order, arrays, _unit_arrays(graph, at), outputs)


def handle(frame):
    """The FFI handler of ``evaluate``."""
    if bridge.is_call(frame):
        evaluate(*arguments(frame))
    return types.uintp(0)


@jit
def _fill(graph, rows, order, scratch, units, outputs):
    genes, words = rows
    scratch.todo[:] = 0
    for row in range(len(words)):
        sort(words[row], order)
        windows = genes[row][genes.shape[1] // 2 :]
        write(row, _schedule(graph, windows, order.keys, scratch, units, outputs[3]), outputs)


@inlined
def _schedule(graph, windows, keys, scratch, units, start):
    """Parallel generation in which ops may hold units for themselves (see MachineProblem)."""
    assign_ranks(keys, scratch.rank, scratch.op_at)
    _reset(graph, windows, scratch, units)
    times, ops = scratch.end_time, scratch.end_op
    running, time = np.int64(0), 0.0
    while True:
        running = _start_candidates(graph, windows, time, scratch, units, start, running)
        if running == 0:
            return time
        time = times[0]
        while running > 0 and times[0] == time:
            op, running = heap.pop(times, ops, running)
            _end(graph, op, windows, scratch, units)


@inlined
def _reset(graph, windows, scratch, units):
    scratch.ready[:] = 0
    scratch.holders[:] = 0
    scratch.least[:] = MOST_HELD
    for machine in range(len(graph.capacity)):
        units.free[machine] = graph.capacity[machine]
        units.first_running[machine] = graph.slot_offsets[machine]
        units.past_running[machine] = graph.slot_offsets[machine]
    for op in range(len(graph.duration)):
        scratch.release[op] = 0.0
        scratch.waiting[op] = graph.num_dependencies[op]
        scratch.unstarted[op] = graph.num_dependencies[op]
        if graph.num_dependencies[op] == 0:
            _add_ready(graph, op, windows, scratch)


@inlined
def _word_of(graph, op, scratch):
    """The word of a type's sets with the op's bit."""
    return graph.machine[op] * len(scratch.todo) + (np.int64(scratch.rank[op]) >> 6)


@inlined
def _add_ready(graph, op, windows, scratch):
    word, bit = _word_of(graph, op, scratch), bits.bit(scratch.rank[op])
    if windows[op] >= SMALLEST_NORMAL:
        scratch.holders[word] |= bit
    else:
        scratch.ready[word] |= bit
        scratch.least[word] = min(scratch.least[word], graph.demand[op])


@inlined
def _start_candidates(graph, windows, time, scratch, units, start, running):
    """Considers every candidate once, in decreasing priority; some come up on the way.

    Ops without a window in words where not even the smallest demand fits are left out: they would
    neither start nor hold anything.
    """
    _list_candidates(graph, scratch, units)
    todo, word = scratch.todo, np.int64(0)
    while word < len(todo):
        if todo[word] == 0:
            word += 1
            continue
        op = np.int64(scratch.op_at[64 * word + bits.lowest(todo[word])])
        todo[word] &= todo[word] - 1
        hold_from, window = scratch.release[op], np.float64(windows[op])
        holds = windows[op] >= SMALLEST_NORMAL
        if scratch.waiting[op] == 0:
            if _may_start(graph, op, time, units):
                start[op] = time
                end = time + graph.duration[op]
                running = heap.push(scratch.end_time, scratch.end_op, running, end, op)
                _take_units(graph, op, end, units)
                word = _follow(graph, op, end, windows, scratch, units, word)
                continue
            if not holds:
                listed = _word_of(graph, op, scratch)
                scratch.least[listed] = min(scratch.least[listed], graph.demand[op])
            if graph.demand[op] <= units.free[graph.machine[op]]:
                continue
            hold_from = time
        if holds and hold_from <= time + window * graph.longest[0]:
            _hold(graph, op, hold_from, units)
    return running


@inlined
def _list_candidates(graph, scratch, units):
    """``todo``: the candidates of types in which something could start; and no holds yet."""
    num_words = len(scratch.todo)
    for machine in range(len(graph.capacity)):
        free = units.free[machine]
        units.past_holds[machine] = graph.slot_offsets[machine]
        units.held[machine] = 0
        units.first_until[machine] = np.inf
        if free >= graph.least[machine]:
            for word in range(num_words):
                listed = machine * num_words + word
                scratch.todo[word] |= scratch.holders[listed]
                if scratch.least[listed] <= free:
                    scratch.todo[word] |= scratch.ready[listed]
                    scratch.least[listed] = MOST_HELD  # until they are considered


@inlined
def _may_start(graph, op, time, units):
    """Whether a ready op fits beside the units held by those that it would keep waiting."""
    machine = np.int64(graph.machine[op])
    room = units.free[machine] - graph.demand[op]
    end = time + graph.duration[op]
    if room < 0:
        return False
    if graph.demand[op] == 0 or units.held[machine] <= room or end <= units.first_until[machine]:
        return True
    for i in range(graph.slot_offsets[machine], units.past_holds[machine]):
        if units.hold_until[i] < end:
            room -= units.hold_demand[i]
            if room < 0:
                return False
    return True


@inlined
def _hold(graph, op, earliest, units):
    """Holds the op's demand until it could start: not before ``earliest``, and as ops end."""
    machine, demand = np.int64(graph.machine[op]), graph.demand[op]
    until, free = earliest, units.free[machine]
    i = units.first_running[machine]
    while free < demand:
        free += units.running_demand[i]
        until = max(until, units.running_end[i])
        i += 1
    place = units.past_holds[machine]
    units.hold_until[place] = until
    units.hold_demand[place] = demand
    units.past_holds[machine] = place + 1
    units.held[machine] = min(units.held[machine] + demand, MOST_HELD)
    units.first_until[machine] = min(units.first_until[machine], until)


@inlined
def _take_units(graph, op, end, units):
    """Into the type's list of running ops, by finish time."""
    machine, demand = np.int64(graph.machine[op]), graph.demand[op]
    first, place = units.first_running[machine], units.past_running[machine]
    ends, demands = units.running_end, units.running_demand
    units.free[machine] -= demand
    units.past_running[machine] = place + 1
    while place > first and ends[place - 1] > end:
        ends[place], demands[place] = ends[place - 1], demands[place - 1]
        place -= 1
    ends[place], demands[place] = end, demand


@inlined
def _follow(graph, op, end, windows, scratch, units, word):
    """What changes with a start: a full type is done, and ops that wait for running ones come up.

    Returns the first word of ``todo`` that may have a bit.
    """
    machine, bit = np.int64(graph.machine[op]), bits.bit(scratch.rank[op])
    listed = _word_of(graph, op, scratch)
    scratch.ready[listed] &= ~bit
    scratch.holders[listed] &= ~bit
    if units.free[machine] < graph.least[machine]:
        _skip_type(machine, scratch, word)
    for i in range(graph.successor_offsets[op], graph.successor_offsets[op + 1]):
        successor = np.int64(graph.successors[i])
        scratch.release[successor] = max(scratch.release[successor], end)
        scratch.unstarted[successor] -= 1
        if scratch.unstarted[successor] == 0 and windows[successor] >= SMALLEST_NORMAL:
            _add_ready(graph, successor, windows, scratch)
            wanted = graph.machine[successor]
            if units.free[wanted] >= graph.least[wanted]:
                word = min(word, bits.add(scratch.todo, scratch.rank[successor]))
    return word


@inlined
def _skip_type(machine, scratch, word):
    """Takes a type's ops off ``todo``, from a word on."""
    num_words = len(scratch.todo)
    for other in range(word, num_words):
        listed = machine * num_words + other
        skipped = scratch.todo[other] & scratch.ready[listed]
        scratch.todo[other] &= ~(scratch.ready[listed] | scratch.holders[listed])
        if skipped != 0:
            scratch.least[listed] = 0  # not known


@inlined
def _end(graph, op, windows, scratch, units):
    """Frees an op's units (all that end at a time go together: the type's first stands for it)."""
    machine = np.int64(graph.machine[op])
    units.free[machine] += graph.demand[op]
    units.first_running[machine] += 1
    for i in range(graph.successor_offsets[op], graph.successor_offsets[op + 1]):
        successor = np.int64(graph.successors[i])
        scratch.waiting[successor] -= 1
        if scratch.waiting[successor] == 0:
            _add_ready(graph, successor, windows, scratch)


@inlined_with_arrays
def _arrays(graph, at):
    """(the arrays, the address behind them)."""
    num_ops, num_types = len(graph.duration), len(graph.capacity)
    num_words = (num_ops + 63) // 64
    rank, at = narrow(at, num_ops)
    op_at, at = narrow(at, num_ops)
    waiting, at = narrow(at, num_ops)
    unstarted, at = narrow(at, num_ops)
    release, at = floats(at, num_ops)
    ready, at = wide(at, num_types * num_words)
    least, at = wide(at, num_types * num_words)
    holders, at = wide(at, num_types * num_words)
    todo, at = wide(at, num_words)
    times, at = floats(at, num_ops + 1)
    ops, at = narrow(at, num_ops + 1)
    counts = (waiting, unstarted, release)
    return Lookahead(rank, op_at, *counts, ready, least, holders, todo, times, ops), at


@inlined_with_arrays
def _unit_arrays(graph, at):
    num_types = len(graph.capacity)
    num_slots = np.int64(graph.slot_offsets[num_types])
    free, at = wide(at, num_types)
    running_end, at = floats(at, num_slots)
    running_demand, at = wide(at, num_slots)
    first_running, at = wide(at, num_types)
    past_running, at = wide(at, num_types)
    hold_until, at = floats(at, num_slots)
    hold_demand, at = wide(at, num_slots)
    past_holds, at = wide(at, num_types)
    held, at = wide(at, num_types)
    first_until, at = floats(at, num_types)
    running = (running_end, running_demand, first_running, past_running)
    return Units(free, *running, hold_until, hold_demand, past_holds, held, first_until)

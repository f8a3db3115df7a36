"""The compiled CPU kernel of machine problems, numba: priorities to start times.

``machine_native`` calls it from Python, ``machine_call`` from inside jitted programs. All compiled
code is in this one file, because numba's disk cache looks at the file of the outermost function
alone (which is why a few lines on XLA's call frame stand here and in ``native_kernel``).

Bit sets are made of int64 words: numba turns uint64 mixed with int64 into float64.
"""

import functools
from typing import NamedTuple

import numba
import numpy as np
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from regal_jax.environments.rcpsp.columns import MachineColumns

PARALLEL, SERIAL, LOOKAHEAD = range(3)

# As in native_kernel: without reference counting (kernels may not allocate), helpers inlined.
_jit = functools.partial(numba.njit, cache=True, nogil=True, error_model="numpy", _nrt=False)
_inlined = functools.partial(_jit, forceinline=True)
_jit_with_arrays = functools.partial(numba.njit, cache=True, nogil=True, error_model="numpy")
_inlined_with_arrays = functools.partial(_jit_with_arrays, forceinline=True)

MOST_HELD = 2**60
"""Units; sums of demands stop here, far above any capacity (2**53) and below int64's end."""


class Order(NamedTuple):
    """Working arrays of the sort, and its result."""

    keys: np.ndarray  # int64[O], priority (high half) and op (low half), sorted
    keys_too: np.ndarray  # int64[O]
    digits: np.ndarray  # int64[1024], 4 histograms of 256


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


def scratch_words(num_ops: int, num_slots: int, num_types: int) -> int:
    """int64 words of the working memory for a graph of up to this size, whatever the generation."""
    order = 2 * num_ops + 1024
    rows = 5 * (num_ops + 2)
    parallel = 2 * num_slots + num_slots // 32 + num_slots // 4096 + 4 * num_types + 8
    serial = num_ops // 64 + 1 + 4 * num_slots + 5 * num_types
    lookahead = (3 * num_types + 1) * (num_ops // 64 + 1) + 4 * num_slots + 6 * num_types
    return order + num_ops + rows + max(parallel, serial, lookahead)


@intrinsic
def _lowest_bit(typing_context, word):
    """The index of the lowest bit that is set, of an int64 that is not 0."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], context.get_constant(types.boolean, 1))

    return types.int64(types.int64), generate


@_jit_with_arrays()
def evaluate_parallel(packed, genes, shape, scratch, results):
    """Schedules a batch of chromosomes. Addresses are of arrays that lie in C order.

    Each generation is a function of its own, because compiling one takes seconds.

    Args:
      packed: address of a packed graph.
      genes: address of the genes, float32. shape: (rows, genes).
      scratch: address of ``scratch_words`` words.
      results: addresses of makespans float64[rows], of makespans float32[rows] and of start times
        float64[rows, O]; 0 for those that aren't wanted.
    """
    graph = _unpack(packed)
    bits = carray(_pointer(types.uintp(genes)), shape, np.int32)
    order, at = _order(graph, scratch)
    outputs, at = _outputs(graph, shape[0], results, at)
    _fill_parallel(graph, bits, order, _parallel_arrays(graph, at), outputs)


@_jit_with_arrays()
def evaluate_serial(packed, genes, shape, scratch, results):
    """See ``evaluate_parallel``."""
    graph = _unpack(packed)
    bits = carray(_pointer(types.uintp(genes)), shape, np.int32)
    order, at = _order(graph, scratch)
    outputs, at = _outputs(graph, shape[0], results, at)
    _fill_serial(graph, bits, order, _serial_arrays(graph, at), outputs)


@_jit_with_arrays()
def evaluate_lookahead(packed, genes, shape, scratch, results):
    """See ``evaluate_parallel``."""
    graph = _unpack(packed)
    values = carray(_pointer(types.uintp(genes)), shape, np.float32)
    bits = carray(_pointer(types.uintp(genes)), shape, np.int32)
    order, at = _order(graph, scratch)
    outputs, at = _outputs(graph, shape[0], results, at)
    arrays, at = _lookahead_arrays(graph, at)
    _fill_lookahead(graph, (values, bits), order, arrays, _unit_arrays(graph, at), outputs)


KERNELS = (evaluate_parallel, evaluate_serial, evaluate_lookahead)
"""By PARALLEL, SERIAL, LOOKAHEAD."""


@_jit()
def _fill_parallel(graph, bits, order, scratch, outputs):
    scratch.ready[:] = 0
    scratch.summary[:] = 0
    scratch.is_touched[:] = 0
    for row in range(len(bits)):
        _sort(bits[row], order)
        _write(row, _parallel(graph, order.keys, scratch, outputs[3]), outputs)


@_jit()
def _fill_serial(graph, bits, order, scratch, outputs):
    for row in range(len(bits)):
        _sort(bits[row], order)
        _write(row, _serial(graph, order.keys, scratch, outputs[3]), outputs)


@_jit()
def _fill_lookahead(graph, rows, order, scratch, units, outputs):
    genes, bits = rows
    scratch.todo[:] = 0
    for row in range(len(bits)):
        _sort(bits[row], order)
        windows = genes[row][bits.shape[1] // 2 :]
        _write(row, _lookahead(graph, windows, order.keys, scratch, units, outputs[3]), outputs)


@_inlined()
def _write(row, makespan, outputs):
    exact, narrow, starts, start = outputs
    if len(exact) > 0:
        exact[row] = makespan
    if len(narrow) > 0:
        narrow[row] = makespan
    if len(starts) > 0:
        for op in range(len(start)):
            starts[row * len(start) + op] = start[op]


@_inlined()
def _parallel(graph, keys, scratch, start):
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
            op, running = _pop(times, ops, running)
            touched = _end(graph, op, scratch, touched)


@_inlined()
def _sort(bits, order):
    """``keys``: ops by decreasing priority, ties by index. A radix sort by digits of eight bits."""
    source, target, digits = order
    num_ops = len(source)
    digits[:] = 0
    for op in range(num_ops):
        key = np.int64(bits[op])
        if key < 0:
            key ^= 0x7FFFFFFF
            key += key == -1  # -0.0 equals 0.0
        key = 0x7FFFFFFF - key
        source[op] = (key << 32) | op
        digits[key & 255] += 1
        digits[256 + ((key >> 8) & 255)] += 1
        digits[512 + ((key >> 16) & 255)] += 1
        digits[768 + (key >> 24)] += 1
    for digit in range(4):
        total = 0
        for i in range(256 * digit, 256 * digit + 256):
            count = digits[i]
            digits[i] = total
            total += count
        shift = 32 + 8 * digit
        for i in range(num_ops):
            key = source[i]
            bucket = 256 * digit + ((key >> shift) & 255)
            target[digits[bucket]] = key
            digits[bucket] += 1
        source, target = target, source


@_inlined()
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


@_inlined()
def _release_sources(graph, scratch):
    touched = np.int64(0)
    for op in range(len(graph.duration)):
        waiting = graph.num_dependencies[op]
        scratch.waiting[op] = waiting
        if waiting == 0:
            touched = _make_ready(graph, op, scratch, touched)
    return touched


@_inlined()
def _make_ready(graph, op, scratch, touched):
    machine, slot = np.int64(graph.machine[op]), np.int64(scratch.slot[op])
    word = slot >> 6
    least = graph.demand[op]
    if scratch.ready[word] != 0:
        least = min(least, scratch.least[word])
    scratch.least[word] = least
    scratch.ready[word] |= np.int64(1) << (slot & 63)
    first = np.int64(graph.slot_offsets[machine]) >> 6
    summary = machine + (first >> 6) + ((word - first) >> 6)
    scratch.summary[summary] |= np.int64(1) << ((word - first) & 63)
    return _touch(machine, scratch, touched)


@_inlined()
def _touch(machine, scratch, touched):
    scratch.touched[touched] = machine
    touched += 1 - scratch.is_touched[machine]
    scratch.is_touched[machine] = 1
    return touched


@_inlined()
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
            place: int = _lowest_bit(words)
            words &= words - 1
            word = first + 64 * block + place
            if scratch.least[word] > free:
                continue
            slots, smallest = scratch.ready[word], MOST_HELD
            while slots != 0 and free >= least:
                slot = 64 * word + _lowest_bit(slots)
                bit = slots & -slots
                slots ^= bit
                demand = scratch.demand_at[slot]
                if demand <= free:
                    free -= demand
                    scratch.ready[word] ^= bit
                    op = np.int64(scratch.op_at[slot])
                    start[op] = time
                    end = time + graph.duration[op]
                    running = _push(scratch.end_time, scratch.end_op, running, end, op)
                else:
                    smallest = min(smallest, demand)
            if slots == 0:
                scratch.least[word] = smallest
            if scratch.ready[word] == 0:
                scratch.summary[base + block] &= ~(np.int64(1) << place)
    scratch.free[machine] = free
    return running


@_inlined()
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


@_inlined()
def _push(times, ops, size, time, op):
    """Adds an op that runs to the heap; returns its new size."""
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if times[parent] <= time:
            break
        times[child] = times[parent]
        ops[child] = ops[parent]
        child = parent
    times[child] = time
    ops[child] = op
    return size + 1


@_inlined()
def _pop(times, ops, size):
    """(an op that ends first, the heap's new size). Writes one entry past the end."""
    op = np.int64(ops[0])
    size -= 1
    time, last = times[size], ops[size]
    times[size] = np.inf
    hole, child = 0, 1
    while child < size:
        child += times[child + 1] < times[child]
        if times[child] >= time:
            break
        times[hole] = times[child]
        ops[hole] = ops[child]
        hole, child = child, 2 * child + 1
    times[hole] = time
    ops[hole] = last
    return op, size


@_inlined()
def _serial(graph, keys, scratch, start):
    """The eligible op of highest priority, again and again, as early as its type has room."""
    _assign_ranks(keys, scratch.rank, scratch.op_at)
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
            first = _set(ready, scratch.rank[op], first)
    for _ in range(len(graph.duration)):
        while ready[first] == 0:
            first += 1
        chosen = np.int64(scratch.op_at[64 * first + _lowest_bit(ready[first])])
        ready[first] &= ready[first] - 1
        start[chosen] = _insert(graph, chosen, scratch)
        end = start[chosen] + graph.duration[chosen]
        makespan = max(makespan, end)
        for i in range(graph.successor_offsets[chosen], graph.successor_offsets[chosen + 1]):
            successor = np.int64(graph.successors[i])
            scratch.release[successor] = max(scratch.release[successor], end)
            scratch.waiting[successor] -= 1
            if scratch.waiting[successor] == 0:
                first = _set(ready, scratch.rank[successor], first)
    return makespan


@_inlined()
def _assign_ranks(keys, rank_of, op_at):
    for rank in range(len(keys)):
        op = keys[rank] & 0xFFFFFFFF
        rank_of[op] = rank
        op_at[rank] = op


@_inlined()
def _set(words, bit, first):
    """Sets a bit; returns the first word that may have one."""
    word = np.int64(bit) >> 6
    words[word] |= np.int64(1) << (np.int64(bit) & 63)
    return min(first, word)


@_inlined()
def _first_event(graph, machine):
    return 2 * (np.int64(graph.slot_offsets[machine]) + machine)


@_inlined()
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


@_inlined()
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


@_inlined()
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


@_inlined()
def _open(times, free, count, at):
    """Moves the events from ``at`` on by one; returns their new number."""
    for i in range(count, at, -1):
        times[i] = times[i - 1]
        free[i] = free[i - 1]
    return count + 1


@_inlined()
def _close(times, free, count, at):
    """Takes event ``at`` away; returns the new number of events."""
    for i in range(at, count - 1):
        times[i] = times[i + 1]
        free[i] = free[i + 1]
    return count - 1


@_inlined()
def _lookahead(graph, windows, keys, scratch, units, start):
    """Parallel generation in which ops may hold units for themselves (see MachineProblem)."""
    _assign_ranks(keys, scratch.rank, scratch.op_at)
    _reset_lookahead(graph, windows, scratch, units)
    times, ops = scratch.end_time, scratch.end_op
    running, time = np.int64(0), 0.0
    while True:
        running = _start_candidates(graph, windows, time, scratch, units, start, running)
        if running == 0:
            return time
        time = times[0]
        while running > 0 and times[0] == time:
            op, running = _pop(times, ops, running)
            _end_lookahead(graph, op, windows, scratch, units)


@_inlined()
def _reset_lookahead(graph, windows, scratch, units):
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


@_inlined()
def _word_of(graph, op, scratch):
    """The word of a type's sets with the op's bit."""
    return graph.machine[op] * len(scratch.todo) + (np.int64(scratch.rank[op]) >> 6)


@_inlined()
def _add_ready(graph, op, windows, scratch):
    word, bit = _word_of(graph, op, scratch), np.int64(1) << (np.int64(scratch.rank[op]) & 63)
    if windows[op] > 0:
        scratch.holders[word] |= bit
    else:
        scratch.ready[word] |= bit
        scratch.least[word] = min(scratch.least[word], graph.demand[op])


@_inlined()
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
        op = np.int64(scratch.op_at[64 * word + _lowest_bit(todo[word])])
        todo[word] &= todo[word] - 1
        hold_from, window = scratch.release[op], np.float64(windows[op])
        if scratch.waiting[op] == 0:
            if _may_start(graph, op, time, units):
                start[op] = time
                end = time + graph.duration[op]
                running = _push(scratch.end_time, scratch.end_op, running, end, op)
                _take_units(graph, op, end, units)
                word = _follow(graph, op, end, windows, scratch, units, word)
                continue
            if not window > 0:
                listed = _word_of(graph, op, scratch)
                scratch.least[listed] = min(scratch.least[listed], graph.demand[op])
            if graph.demand[op] <= units.free[graph.machine[op]]:
                continue
            hold_from = time
        if window > 0 and hold_from <= time + window * graph.longest[0]:
            _hold(graph, op, hold_from, units)
    return running


@_inlined()
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


@_inlined()
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


@_inlined()
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


@_inlined()
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


@_inlined()
def _follow(graph, op, end, windows, scratch, units, word):
    """What changes with a start: a full type is done, and ops that wait for running ones come up.

    Returns the first word of ``todo`` that may have a bit.
    """
    machine, bit = np.int64(graph.machine[op]), np.int64(1) << (np.int64(scratch.rank[op]) & 63)
    listed = _word_of(graph, op, scratch)
    scratch.ready[listed] &= ~bit
    scratch.holders[listed] &= ~bit
    if units.free[machine] < graph.least[machine]:
        _skip_type(machine, scratch, word)
    for i in range(graph.successor_offsets[op], graph.successor_offsets[op + 1]):
        successor = np.int64(graph.successors[i])
        scratch.release[successor] = max(scratch.release[successor], end)
        scratch.unstarted[successor] -= 1
        if scratch.unstarted[successor] == 0 and windows[successor] > 0:
            _add_ready(graph, successor, windows, scratch)
            wanted = graph.machine[successor]
            if units.free[wanted] >= graph.least[wanted]:
                word = _set(scratch.todo, scratch.rank[successor], word)
    return word


@_inlined()
def _skip_type(machine, scratch, word):
    """Takes a type's ops off ``todo``, from a word on."""
    num_words = len(scratch.todo)
    for other in range(word, num_words):
        listed = machine * num_words + other
        skipped = scratch.todo[other] & scratch.ready[listed]
        scratch.todo[other] &= ~(scratch.ready[listed] | scratch.holders[listed])
        if skipped != 0:
            scratch.least[listed] = 0  # not known


@_inlined()
def _end_lookahead(graph, op, windows, scratch, units):
    """Frees an op's units (all that end at a time go together: the type's first stands for it)."""
    machine = np.int64(graph.machine[op])
    units.free[machine] += graph.demand[op]
    units.first_running[machine] += 1
    for i in range(graph.successor_offsets[op], graph.successor_offsets[op + 1]):
        successor = np.int64(graph.successors[i])
        scratch.waiting[successor] -= 1
        if scratch.waiting[successor] == 0:
            _add_ready(graph, successor, windows, scratch)


@intrinsic
def _pointer(typing_context, address):
    """An integer as a void pointer."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.uintp), generate


@_inlined_with_arrays()
def _words(address, count):
    return carray(_pointer(types.uintp(address)), (count,), np.int64)


@_inlined_with_arrays()
def _wide(address, length):
    """(int64[length] at an address, the address behind it)."""
    return _words(address, length), address + 8 * length


@_inlined_with_arrays()
def _floats(address, length):
    """(float64[length] at an address, the address behind it)."""
    return carray(_pointer(types.uintp(address)), (length,), np.float64), address + 8 * length


@_inlined_with_arrays()
def _narrow(address, length):
    """(int32[length] at an address, the address behind it, a multiple of eight)."""
    column = carray(_pointer(types.uintp(address)), (length,), np.int32)
    return column, address + 4 * (length + length % 2)


@_inlined_with_arrays()
def _outputs(graph, rows, results, at):
    """((makespans exact and narrow, starts, start of one row), the address behind the last)."""
    num_ops = len(graph.duration)
    exact, _ = _floats(results[0], rows * (results[0] != 0))
    narrow = carray(_pointer(types.uintp(results[1])), (rows * (results[1] != 0),), np.float32)
    starts, _ = _floats(results[2], rows * num_ops * (results[2] != 0))
    start, at = _floats(at, num_ops)
    return (exact, narrow, starts, start), at


@_inlined_with_arrays()
def _order(graph, address):
    """(the sort's arrays, the address behind them)."""
    num_ops = len(graph.duration)
    keys, at = _wide(address, num_ops)
    keys_too, at = _wide(at, num_ops)
    digits, at = _wide(at, 1024)
    return Order(keys, keys_too, digits), at


@_inlined_with_arrays()
def _parallel_arrays(graph, at):
    num_ops, num_types = len(graph.duration), len(graph.capacity)
    num_slots = np.int64(graph.slot_offsets[num_types])
    slot, at = _narrow(at, num_ops)
    op_at, at = _narrow(at, num_slots)
    demand_at, at = _wide(at, num_slots)
    waiting, at = _narrow(at, num_ops)
    free, at = _wide(at, num_types)
    ready, at = _wide(at, num_slots // 64)
    least, at = _wide(at, num_slots // 64)
    summary, at = _wide(at, num_types + num_slots // 4096 + 1)
    touched, at = _narrow(at, num_types + 1)
    is_touched, at = _narrow(at, num_types)
    times, at = _floats(at, num_ops + 1)
    ops, at = _narrow(at, num_ops + 1)
    counts = (waiting, free)
    bits = (ready, least, summary)
    return Parallel(slot, op_at, demand_at, *counts, *bits, touched, is_touched, times, ops)


@_inlined_with_arrays()
def _serial_arrays(graph, at):
    num_ops, num_types = len(graph.duration), len(graph.capacity)
    num_events = 2 * (np.int64(graph.slot_offsets[num_types]) + num_types)
    rank, at = _narrow(at, num_ops)
    op_at, at = _narrow(at, num_ops)
    waiting, at = _narrow(at, num_ops)
    release, at = _floats(at, num_ops)
    ready, at = _wide(at, (num_ops + 63) // 64)
    event_time, at = _floats(at, num_events)
    event_free, at = _wide(at, num_events)
    counts, at = _wide(at, num_types)
    return Serial(rank, op_at, waiting, release, ready, event_time, event_free, counts)


@_inlined_with_arrays()
def _lookahead_arrays(graph, at):
    """(the arrays, the address behind them)."""
    num_ops, num_types = len(graph.duration), len(graph.capacity)
    num_words = (num_ops + 63) // 64
    rank, at = _narrow(at, num_ops)
    op_at, at = _narrow(at, num_ops)
    waiting, at = _narrow(at, num_ops)
    unstarted, at = _narrow(at, num_ops)
    release, at = _floats(at, num_ops)
    ready, at = _wide(at, num_types * num_words)
    least, at = _wide(at, num_types * num_words)
    holders, at = _wide(at, num_types * num_words)
    todo, at = _wide(at, num_words)
    times, at = _floats(at, num_ops + 1)
    ops, at = _narrow(at, num_ops + 1)
    counts = (waiting, unstarted, release)
    return Lookahead(rank, op_at, *counts, ready, least, holders, todo, times, ops), at


@_inlined_with_arrays()
def _unit_arrays(graph, at):
    num_types = len(graph.capacity)
    num_slots = np.int64(graph.slot_offsets[num_types])
    free, at = _wide(at, num_types)
    running_end, at = _floats(at, num_slots)
    running_demand, at = _wide(at, num_slots)
    first_running, at = _wide(at, num_types)
    past_running, at = _wide(at, num_types)
    hold_until, at = _floats(at, num_slots)
    hold_demand, at = _wide(at, num_slots)
    past_holds, at = _wide(at, num_types)
    held, at = _wide(at, num_types)
    first_until, at = _floats(at, num_types)
    running = (running_end, running_demand, first_running, past_running)
    return Units(free, *running, hold_until, hold_demand, past_holds, held, first_until)


@_inlined_with_arrays()
def _buffer(buffers, index):
    """(address of the data, address of the dimensions) of an XLA_FFI_Buffer."""
    buffer = _words(_words(buffers, index + 1)[index], 6)
    return buffer[3], buffer[5]


@_inlined_with_arrays()
def _arguments(frame):
    """An evaluation's arguments. XLA_FFI_CallFrame: operands at word 5.., results at 10..."""
    packed, _ = _buffer(frame[9], 0)
    genes, gene_dims = _buffer(frame[9], 1)
    results, _ = _buffer(frame[14], 0)
    scratch, _ = _buffer(frame[14], 1)
    dims = _words(gene_dims, 2)
    return packed, genes, (dims[0], dims[1]), scratch, (np.int64(0), results, np.int64(0))


def handle_parallel(frame_address):
    """An FFI handler; the frame's extension, at word 1, is a question for metadata."""
    frame = _words(frame_address, 15)
    if frame[1] != 0:
        _write_metadata(frame)
    else:
        packed, genes, shape, scratch, results = _arguments(frame)
        evaluate_parallel(packed, genes, shape, scratch, results)
    return types.uintp(0)


def handle_serial(frame_address):
    """See ``handle_parallel``."""
    frame = _words(frame_address, 15)
    if frame[1] != 0:
        _write_metadata(frame)
    else:
        packed, genes, shape, scratch, results = _arguments(frame)
        evaluate_serial(packed, genes, shape, scratch, results)
    return types.uintp(0)


def handle_lookahead(frame_address):
    """See ``handle_parallel``."""
    frame = _words(frame_address, 15)
    if frame[1] != 0:
        _write_metadata(frame)
    else:
        packed, genes, shape, scratch, results = _arguments(frame)
        evaluate_lookahead(packed, genes, shape, scratch, results)
    return types.uintp(0)


HANDLERS = (handle_parallel, handle_serial, handle_lookahead)
"""By PARALLEL, SERIAL, LOOKAHEAD."""


@_inlined_with_arrays()
def _write_metadata(frame):
    """Answers XLA's question for the API version with the version of the runtime that asks."""
    extension = _words(frame[1], 4)
    _words(extension[3], 4)[3] = _words(frame[2], 5)[4]


@_inlined_with_arrays()
def _unpack(address):
    """The columns of a packed graph, in the order of MachineColumns."""
    lengths = _words(address, 10)
    at = address + 8 * 10
    duration, at = _floats(at, lengths[0])
    longest, at = _floats(at, lengths[1])
    demand, at = _wide(at, lengths[2])
    capacity, at = _wide(at, lengths[3])
    least, at = _wide(at, lengths[4])
    machine, at = _narrow(at, lengths[5])
    num_dependencies, at = _narrow(at, lengths[6])
    successor_offsets, at = _narrow(at, lengths[7])
    successors, at = _narrow(at, lengths[8])
    slot_offsets, at = _narrow(at, lengths[9])
    return MachineColumns(
        duration,
        longest,
        demand,
        capacity,
        least,
        machine,
        num_dependencies,
        successor_offsets,
        successors,
        slot_offsets,
    )

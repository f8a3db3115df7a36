"""The compiled loop of sequencing: of the ops that compete for a machine, which one is next.

Giffler and Thompson (1960): of all ops that wait for nothing, one would end first; the ops of its
machine type that could start before that time are in conflict, and one of them is appended to what
the type's units have. What a choice looks like is a row of FEATURES numbers, which a network reads.
"""

from typing import NamedTuple

import numpy as np

from regal_jax.environments.choosing.kernel import MOST, Sight, draw, new_sight
from regal_jax.native.compilation import inlined, jit

NAMES = (
    "duration",
    "tail",  # the longest path behind the op
    "later",  # its start, after the earliest of the conflict
    "waits",  # the op for the machine
    "idle",  # the unit for the op
    "over",  # its end, after the first end of the conflict
    "path",  # its end and tail, below the largest of the conflict
    "slack",  # the same, below the longest path of all that is left
    "bound",  # the machine's bound if it is next, above the least of the conflict
    "excess",  # the machine's bound if it is next, above the longest path of all that is left
    "load",  # work left on the machine
    "pressure",  # when the machine could be done with it, below the longest path
    "conflict",  # logarithm of the number of ops in conflict
    "next_duration",  # of the successor with the longest path
    "next_load",  # work left on that one's machine
    "next_idle",  # the op's end, after that machine's release
    "levels",  # ops on the longest path behind it, over 10
    "tail_over",  # its tail, above the mean of the conflict
    "duration_over",  # its duration, above the mean of the conflict
    "done",  # part of the ops that are scheduled
    "share",  # part of the machine's units
    "longer_tails",  # part of the conflict with longer tails
    "queue",  # work of ops that wait for nothing but the machine
    "next_queue",  # the same of the successor's machine
    "next_pressure",  # when that one could be done with all its work, below the longest path
    "feeds",  # the largest of these, of all machines on the longest path behind the op
)
"""What is known of a choice; times are in parts of ten mean durations."""

FEATURES = len(NAMES)
(
    DURATION,
    TAIL,
    LATER,
    WAITS,
    IDLE,
    OVER,
    PATH,
    SLACK,
    BOUND,
    EXCESS,
    LOAD,
    PRESSURE,
    CONFLICT,
    NEXT_DURATION,
    NEXT_LOAD,
    NEXT_IDLE,
    LEVELS,
    TAIL_OVER,
    DURATION_OVER,
    DONE,
    SHARE,
    LONGER_TAILS,
    QUEUE,
    NEXT_QUEUE,
    NEXT_PRESSURE,
    FEEDS,
) = range(FEATURES)


class Columns(NamedTuple):
    """O ops on M machine types with U units in all.

    Attributes:
      duration: float64[O], tail: float64[O], in the graph's unit of time. levels: float64[O].
      demand: int64[O]. machine: int32[O]. missing: int32[O], ops that an op waits for.
      successor_offsets, successors: the ops that wait for an op. next: int32[O], that of them with
        the longest path, -1 for none.
      op_offsets: int32[M + 1] into ops: int32[O], those of each type, the longest tail first.
      unit_offsets: int64[M + 1]. heads: float64[O], longest paths before ops.
      unit: the time that features count in.
    """

    duration: np.ndarray
    tail: np.ndarray
    levels: np.ndarray
    demand: np.ndarray
    machine: np.ndarray
    missing: np.ndarray
    successor_offsets: np.ndarray
    successors: np.ndarray
    next: np.ndarray
    op_offsets: np.ndarray
    ops: np.ndarray
    unit_offsets: np.ndarray
    heads: np.ndarray
    unit: float


class State(NamedTuple):
    """What has been decided, and memory for looking at what is next."""

    head: np.ndarray  # float64[O], when an op could start at the earliest
    waiting: np.ndarray  # int32[O]
    done: np.ndarray  # bool[O]
    ready: np.ndarray  # int32[O]
    release: np.ndarray  # float64[U], of each type's units, ascending
    load: np.ndarray  # float64[M], work left
    queue: np.ndarray  # float64[M], of it that of ready ops
    stack: np.ndarray  # int32[O]
    conflict: np.ndarray  # int32[MOST]
    start: np.ndarray  # float64[MOST]
    bound: np.ndarray  # float64[MOST]
    left: np.ndarray  # float64[O], of preempted ops
    sight: Sight


def new_state(columns: Columns, size: int) -> State:
    """Memory of one thread, for networks of a size."""
    num_ops, num_units = len(columns.duration), columns.unit_offsets[-1]
    return State(
        head=np.empty(num_ops),
        waiting=np.empty(num_ops, np.int32),
        done=np.empty(num_ops, np.bool_),
        ready=np.empty(num_ops, np.int32),
        release=np.empty(num_units),
        load=np.empty(len(columns.unit_offsets) - 1),
        queue=np.empty(len(columns.unit_offsets) - 1),
        stack=np.empty(num_ops + len(columns.successors), np.int32),
        conflict=np.empty(MOST, np.int32),
        start=np.empty(MOST),
        bound=np.empty(MOST),
        left=np.empty(num_ops),
        sight=new_sight(FEATURES, size),
    )


@jit
def draw_all(columns, state, network, seeds, temperature, orders, makespans):
    """Fills orders int32[B, O] and makespans float64[B] by drawing: a choice's logit, and Gumbel
    noise over it times a temperature, 0 for none."""
    for row in range(len(seeds)):
        state.sight.random[0] = seeds[row]
        ready, makespan = _reset(columns, state), 0.0
        for step in range(len(columns.duration)):
            count = _conflict(columns, state, ready)
            chosen = 0
            if count > 1:
                _look(columns, state, count, step)
                chosen = draw(state.sight, network, count, temperature)
            op = state.conflict[chosen]
            orders[row, step] = op
            makespan = max(makespan, state.start[chosen] + columns.duration[op])
            ready = _append(columns, state, op, state.start[chosen], ready)
        makespans[row] = makespan


@jit
def follow(columns, state, rank, rows, counts, chosen):
    """Fills rows float32[O, K, FEATURES] of the first K ops of each conflict, counts int32[O] of
    ops in conflict, chosen int32[O], which of them is next: the one of lowest rank int32[O]."""
    ready = _reset(columns, state)
    for step in range(len(rank)):
        count = _conflict(columns, state, ready)
        at = 0
        for other in range(1, count):
            if rank[state.conflict[other]] < rank[state.conflict[at]]:
                at = other
        if count > 1:
            _look(columns, state, count, step)
            for other in range(min(count, rows.shape[1])):
                for feature in range(FEATURES):
                    rows[step, other, feature] = state.sight.rows[other, feature]
        counts[step], chosen[step] = count, at
        ready = _append(columns, state, state.conflict[at], state.start[at], ready)


@inlined
def _reset(columns, state):
    """How many ops are ready at first."""
    count = 0
    for machine in range(len(state.load)):
        state.load[machine], state.queue[machine] = 0.0, 0.0
    for unit in range(len(state.release)):
        state.release[unit] = 0.0
    for op in range(len(columns.duration)):
        state.head[op], state.waiting[op] = columns.heads[op], columns.missing[op]
        state.done[op] = False
        state.load[columns.machine[op]] += _work(columns, op)
        if columns.missing[op] == 0:
            count = _more_ready(columns, state, op, count)
    return count


@inlined
def _more_ready(columns, state, op, count):
    state.ready[count] = op
    state.queue[columns.machine[op]] += _work(columns, op)
    return count + 1


@inlined
def _work(columns, op):
    """Time that an op takes of all units of its type."""
    return columns.duration[op] * columns.demand[op] / max(_units(columns, columns.machine[op]), 1)


@inlined
def _units(columns, machine):
    return columns.unit_offsets[machine + 1] - columns.unit_offsets[machine]


@inlined
def _last_unit(columns, op):
    """The last of the units that an op would take, of those that are free first."""
    return columns.unit_offsets[columns.machine[op]] + columns.demand[op] - 1


@inlined
def _start(columns, state, op):
    start = state.head[op]
    if columns.demand[op] > 0:
        start = max(start, state.release[_last_unit(columns, op)])
    return start


@inlined
def _conflict(columns, state, ready):
    """Fills the ops in conflict, by op, and their starts; returns their number."""
    first, end = -1, np.inf
    for at in range(ready):
        op = state.ready[at]
        finish = _start(columns, state, op) + columns.duration[op]
        if finish < end or (finish == end and op < first):
            first, end = op, finish
    machine, count = columns.machine[first], 0
    if columns.demand[first] > 0 and columns.duration[first] > 0.0:
        for at in range(ready):
            op = state.ready[at]
            if columns.machine[op] == machine and columns.demand[op] > 0 and count < MOST:
                start = _start(columns, state, op)
                if start < end:
                    state.conflict[count], state.start[count] = op, start
                    count += 1
    if count == 0:
        state.conflict[0], state.start[0], count = first, _start(columns, state, first), 1
    for at in range(1, count):
        op, start, to = state.conflict[at], state.start[at], at
        while to > 0 and state.conflict[to - 1] > op:
            state.conflict[to], state.start[to] = state.conflict[to - 1], state.start[to - 1]
            to -= 1
        state.conflict[to], state.start[to] = op, start
    return count


@inlined
def _look(columns, state, count, step):
    """Fills the rows of ops in conflict."""
    machine = columns.machine[state.conflict[0]]
    longest, shortest_tail = _of_the_rest(columns, state, machine)
    pressure = _pressure(columns, state, machine, longest - shortest_tail)
    for at in range(count):
        state.bound[at] = _bound_after(columns, state, state.conflict[at], state.start[at])
    conflict = _of_conflict(columns, state, count)
    for at in range(count):
        op, row = state.conflict[at], state.sight.rows[at]
        finish = state.start[at] + columns.duration[op]
        row[LOAD], row[QUEUE] = (
            state.load[machine] / columns.unit,
            state.queue[machine] / columns.unit,
        )
        row[PRESSURE], row[CONFLICT] = pressure, np.log(np.float64(count))
        row[DONE], row[LEVELS] = step / len(columns.duration), columns.levels[op] / 10.0
        row[SHARE] = columns.demand[op] / _units(columns, machine)
        _look_at_times(columns, state, at, conflict, longest)
        _look_behind(columns, state, columns.next[op], finish, longest, row)
        longer = 0
        for other in range(count):
            longer += columns.tail[state.conflict[other]] > columns.tail[op]
        row[LONGER_TAILS] = longer / count


@inlined
def _of_the_rest(columns, state, machine):
    """The longest path through ops that are left, and the shortest tail of those of the machine."""
    longest, shortest_tail = 0.0, np.inf
    for op in range(len(columns.duration)):
        if not state.done[op]:
            longest = max(longest, state.head[op] + columns.duration[op] + columns.tail[op])
            if columns.machine[op] == machine:
                shortest_tail = min(shortest_tail, columns.tail[op])
    return longest, shortest_tail


@inlined
def _of_conflict(columns, state, count):
    """(earliest start, first end, largest end and tail, least bound, mean tail, mean duration)."""
    earliest, end, path, least, tails, durations = np.inf, np.inf, 0.0, np.inf, 0.0, 0.0
    for at in range(count):
        op = state.conflict[at]
        finish = state.start[at] + columns.duration[op]
        earliest, end = min(earliest, state.start[at]), min(end, finish)
        path, least = max(path, finish + columns.tail[op]), min(least, state.bound[at])
        tails, durations = tails + columns.tail[op], durations + columns.duration[op]
    return earliest, end, path, least, tails / count, durations / count


@inlined
def _look_at_times(columns, state, at, conflict, longest):
    """Fills what is known of the op's own times."""
    earliest, end, path, least, tails, durations = conflict
    op, start, row, unit = state.conflict[at], state.start[at], state.sight.rows[at], columns.unit
    duration, tail, bound = columns.duration[op], columns.tail[op], state.bound[at]
    finish = start + duration
    row[DURATION], row[TAIL] = duration / unit, tail / unit
    row[DURATION_OVER], row[TAIL_OVER] = (duration - durations) / unit, (tail - tails) / unit
    row[LATER], row[WAITS] = (start - earliest) / unit, (start - state.head[op]) / unit
    row[IDLE] = (start - state.release[_last_unit(columns, op)]) / unit
    row[OVER], row[PATH] = (finish - end) / unit, (finish + tail - path) / unit
    row[SLACK] = (finish + tail - longest) / unit
    row[BOUND], row[EXCESS] = (bound - least) / unit, (bound - longest) / unit


@inlined
def _look_behind(columns, state, after, finish, longest, row):
    """Fills what is known of the successor, 0 if there is none."""
    row[NEXT_DURATION], row[NEXT_LOAD], row[NEXT_IDLE] = 0.0, 0.0, 0.0
    row[NEXT_QUEUE], row[NEXT_PRESSURE], row[FEEDS] = 0.0, 0.0, 0.0
    if after >= 0:
        machine, unit = columns.machine[after], columns.unit
        row[NEXT_DURATION] = columns.duration[after] / unit
        row[NEXT_LOAD] = state.load[machine] / unit
        if _units(columns, machine) > 0:
            row[NEXT_IDLE] = (finish - state.release[columns.unit_offsets[machine]]) / unit
        row[NEXT_QUEUE] = state.queue[machine] / unit
        row[NEXT_PRESSURE] = _pressure(columns, state, machine, longest)
        most = row[NEXT_PRESSURE]
        while after >= 0:
            most = max(most, _pressure(columns, state, columns.machine[after], longest))
            after = columns.next[after]
        row[FEEDS] = most


@inlined
def _pressure(columns, state, machine, longest):
    free = 0.0
    if _units(columns, machine) > 0:
        free = state.release[columns.unit_offsets[machine]]
    return np.float32((free + state.load[machine] - longest) / columns.unit)


@inlined
def _bound_after(columns, state, op, start):
    """A bound of when all is done that is behind the ops of a machine, if ``op`` is next there. For
    one unit it is that of the preemptive schedule by longest tail (Jackson 1955, Carlier 1982),
    else by work."""
    machine, finish = columns.machine[op], start + columns.duration[op]
    bound = finish + columns.tail[op]
    if _units(columns, machine) > 1:
        return max(bound, _bound_by_work(columns, state, machine))
    remaining, time = _begin_preempting(columns, state, machine, op), finish
    while remaining > 0:
        best, coming = -1, np.inf
        for at in range(columns.op_offsets[machine], columns.op_offsets[machine + 1]):
            if state.left[at] > 0.0:
                head = state.head[columns.ops[at]]
                if head <= time:  # of the longest tail, until one with a longer one can start
                    best = at
                    break
                coming = min(coming, head)
        if best < 0:
            time = coming
        elif state.left[best] > coming - time:
            state.left[best] -= coming - time
            time = coming
        else:
            time += state.left[best]
            state.left[best], remaining = 0.0, remaining - 1
            bound = max(bound, time + columns.tail[columns.ops[best]])
    return bound


@inlined
def _bound_by_work(columns, state, machine):
    earliest, tail, work = np.inf, np.inf, 0.0
    free = state.release[columns.unit_offsets[machine]]
    for at in range(columns.op_offsets[machine], columns.op_offsets[machine + 1]):
        op = columns.ops[at]
        if not state.done[op] and columns.demand[op] > 0:
            earliest, tail = min(earliest, max(state.head[op], free)), min(tail, columns.tail[op])
            work += _work(columns, op)
    return earliest + work + tail


@inlined
def _begin_preempting(columns, state, machine, chosen):
    """Fills the time that is left of a machine's ops but the chosen one; how many have any."""
    remaining = 0
    for at in range(columns.op_offsets[machine], columns.op_offsets[machine + 1]):
        op = columns.ops[at]
        counts = not state.done[op] and op != chosen and columns.demand[op] > 0
        state.left[at] = columns.duration[op] if counts else 0.0
        remaining += state.left[at] > 0.0
    return remaining


@inlined
def _append(columns, state, op, start, ready):
    """Schedules an op after what its units have; how many are ready then."""
    state.done[op] = True
    state.load[columns.machine[op]] -= _work(columns, op)
    state.queue[columns.machine[op]] -= _work(columns, op)
    _occupy(columns, state, op, start + columns.duration[op])
    for at in range(ready):
        if state.ready[at] == op:
            state.ready[at] = state.ready[ready - 1]
            break
    ready -= 1
    for at in range(columns.successor_offsets[op], columns.successor_offsets[op + 1]):
        after = columns.successors[at]
        state.waiting[after] -= 1
        if state.waiting[after] == 0:
            ready = _more_ready(columns, state, after, ready)
    _push_heads(columns, state, op, start)
    return ready


@inlined
def _occupy(columns, state, op, finish):
    """The units that are free first are busy until the op ends; releases go on to ascend."""
    machine, demand = columns.machine[op], columns.demand[op]
    at, past = columns.unit_offsets[machine], columns.unit_offsets[machine + 1]
    behind = at + demand
    while demand > 0 and behind < past and state.release[behind] < finish:
        state.release[at] = state.release[behind]
        at, behind = at + 1, behind + 1
    for unit in range(at, at + demand):
        state.release[unit] = finish


@inlined
def _push_heads(columns, state, op, start):
    """Raises the heads of all that is behind an op that has its start."""
    state.head[op], state.stack[0], count = start, op, 1
    while count > 0:
        count -= 1
        end = state.head[state.stack[count]] + columns.duration[state.stack[count]]
        first = columns.successor_offsets[state.stack[count]]
        past = columns.successor_offsets[state.stack[count] + 1]
        for at in range(first, past):
            after = columns.successors[at]
            if state.head[after] < end:
                state.head[after] = end
                if count < len(state.stack):  # what is lost is a feature's, not a start's
                    state.stack[count] = after
                    count += 1

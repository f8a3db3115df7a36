"""The compiled loops of the local search, numba: what a move costs, making it, and the descent.

A state is an order and a placement. The op at position p has the coordinate 2 p + 2, the gap
before it 2 p + 1; the start is 0 and the end 2 O + 2. A copy of a tensor is in memory from one
coordinate to another on one device:

- at home, from the producer to its last use there, or to the first reader on any other device if
  that is later (the transfer runs right before that op);
- elsewhere, from the first to the last reader there;
- a tensor without producer is there from the start, a persistent one stays at home to the end.

Transfers have no coordinates: the op behind a transfer holds all that the transfer does, on the
same device, and a source that goes a little early or late meets no step of its device in between.
So a device's peak is the maximum over coordinates of the intervals that cover it, where an op's
workspace is an interval of one coordinate.

A move takes one op to a device and a coordinate. It changes the intervals of the tensors that the
op reads or makes and no others, if the coordinates of all other ops are kept and the op goes to a
gap. The change is a step function with a few steps; the new peak is the largest, over its flat
parts, of the part's height plus the maximum of the old memory there, from a tree of maxima.

A makespan is timed anew from the first position that changes; after the last such position, only
ops that are affected are, until nothing is.
"""

from typing import NamedTuple

import numpy as np

from regal_jax.native.compilation import inlined, jit
from regal_jax.native.random import below

STRIDE = 32
"""Positions between two records of the devices' free times."""
ROUNDING = 1.0 + 1e-9
"""More than sums of durations in different orders can differ by."""


class Instance(NamedTuple):
    """A graph on a platform: O ops, K tensors, D devices; only tensors with a size count.

    Rows are in CSR form: row i is [offsets[i]], ..., [offsets[i + 1] - 1].

    Attributes:
      before_offsets, before_ops, before_delay: ops an op reads from, and the us it takes if they
        are on other devices. after_*: the ops that read from it.
      touched_offsets, touched: tensors an op reads or makes, if they have a size.
      reader_offsets, readers: ops that read a tensor.
      producer: int32[K], -1 for inputs. size: int64[K], bytes. persistent: bool[K].
      private: int64[O], bytes of inputs never freed that only this op reads. workspace: int64[O].
      duration: float64[O], us.
      capacities: float64[D], bytes, infinite where unlimited.
      ceiling: what infeasible schedules cost at least (``placement.kernel.penalised``).
      with_makespan: whether the makespan is the objective; with_memory: whether memory is, or is
        limited.
    """

    before_offsets: np.ndarray
    before_ops: np.ndarray
    before_delay: np.ndarray
    after_offsets: np.ndarray
    after_ops: np.ndarray
    after_delay: np.ndarray
    touched_offsets: np.ndarray
    touched: np.ndarray
    reader_offsets: np.ndarray
    readers: np.ndarray
    producer: np.ndarray
    size: np.ndarray
    persistent: np.ndarray
    private: np.ndarray
    workspace: np.ndarray
    duration: np.ndarray
    capacities: np.ndarray
    ceiling: float
    with_memory: bool
    with_makespan: bool


class State(NamedTuple):
    """An order and a placement, and what moves are costed with.

    Attributes:
      order, position, place: int32[O]; ``position`` is the reverse of ``order``.
      first, last: int32[K, D], the first and last reader of a tensor on a device, or -1.
      tree: int64[D, 2 * leaves], maxima of bytes; leaf ``leaves + c`` is coordinate c.
      finish: float64[O], us. tail: float64[O], us from an op's finish to the end at the earliest.
      free: float64[O / STRIDE + 1, D], when the devices are free before every STRIDEth position.
      until, since: float64[O + 1], the last finish before a position, and from it on.
      cost: float64[1].
    """

    order: np.ndarray
    position: np.ndarray
    place: np.ndarray
    first: np.ndarray
    last: np.ndarray
    tree: np.ndarray
    finish: np.ndarray
    tail: np.ndarray
    free: np.ndarray
    until: np.ndarray
    since: np.ndarray
    cost: np.ndarray


class Scratch(NamedTuple):
    """Working arrays.

    Attributes:
      steps: int64[D], how many steps the change of memory on a device has; at, by: int64[D, N],
        their coordinates and bytes.
      born, died: int64[D], bytes that the moved op is the first, the last to hold.
      spans: int64[4, D], first and last readers' coordinates before and after a move.
      finish: float64[O], new finish times, of ops with ``stamp`` == ``clock[0]``; ``dirty`` marks
        ops to be timed anew in the same way.
      free, old_free: float64[D]; next: int32[D], the next op on a device or -1.
    """

    steps: np.ndarray
    at: np.ndarray
    by: np.ndarray
    born: np.ndarray
    died: np.ndarray
    spans: np.ndarray
    finish: np.ndarray
    stamp: np.ndarray
    dirty: np.ndarray
    clock: np.ndarray
    free: np.ndarray
    old_free: np.ndarray
    next: np.ndarray


class Best(NamedTuple):
    """The best so far: order and place int32[O], cost float64[1], and when it improved:
    ``spent`` int64[N] evaluations, ``costs`` float64[N]."""

    order: np.ndarray
    place: np.ndarray
    cost: np.ndarray
    spent: np.ndarray
    costs: np.ndarray


class Tally(NamedTuple):
    """Counters, int64[1] each: evaluations spent, samples in a row without improvement, entries
    in ``Best.spent``; and the state of the random numbers, uint64[1]."""

    spent: np.ndarray
    failures: np.ndarray
    entries: np.ndarray
    random: np.ndarray


@jit
def build(instance, state, scratch):
    """Fills in a state from its ``order`` and ``place``."""
    for position in range(len(state.order)):
        state.position[state.order[position]] = position
    if instance.with_memory:
        for tensor in range(len(instance.size)):
            if instance.size[tensor] > 0:
                _find_readers(instance, state, tensor)
        _fill_tree(instance, state, scratch)
    if instance.with_makespan:
        _time_all(instance, state, scratch, np.int64(0))
    state.cost[0] = _current_cost(instance, state)


@jit
def move_cost(instance, state, scratch, op, device, spot, limit):
    """The cost after a move; or infinity where it is a makespan sure to be above ``limit``."""
    return _move_cost(instance, state, scratch, op, device, spot, limit)


@jit
def shake(instance, state, scratch, tally, moves):
    """Random moves, whatever they cost."""
    for _ in range(moves):
        op, first, choice = _random_choice(instance, state, tally.random)
        device, spot = _target(instance, state, op, first, choice)
        move(instance, state, scratch, op, device, spot)


@jit
def record(state, best, tally):
    """Keeps the state if it is better than the best so far."""
    if state.cost[0] < best.cost[0]:
        best.cost[0] = state.cost[0]
        _copy(state.order, best.order)
        _copy(state.place, best.place)
        best.spent[tally.entries[0]] = tally.spent[0]
        best.costs[tally.entries[0]] = state.cost[0]
        tally.entries[0] += 1


@jit
def descend(instance, state, scratch, best, tally, tuning, budget, stop):
    """Steps until ``stop`` evaluations are spent, or so many samples improved nothing.

    ``tuning`` is (neighbours, patience, whether to move to neighbours that cost the same). The
    last sample is smaller where the budget ends inside it.
    """
    neighbours, patience, sideways = tuning
    while tally.spent[0] < stop and tally.failures[0] < patience:
        count = min(neighbours, budget - tally.spent[0])
        complete = _has_at_most(instance, state, count)
        cost, op, device, spot = _best_neighbour(instance, state, scratch, tally, count, complete)
        better = cost < state.cost[0]
        tally.failures[0] = 0 if better else tally.failures[0] + 1
        if better or (sideways and cost == state.cost[0]):
            move(instance, state, scratch, op, device, spot)
            record(state, best, tally)
        elif complete:
            tally.failures[0] = patience


@inlined
def _best_neighbour(instance, state, scratch, tally, count, complete):
    """(cost, op, device, spot) of the best of all moves if ``complete``, else of so many random
    ones. Ties are broken at random."""
    best, best_op, best_device, best_spot, ties = np.inf, 0, 0, 0, 0
    op, first, choice, choices = -1, 0, -1, 0
    while True:
        if complete:
            choice += 1
            while choice >= choices and op + 1 < len(state.order):
                op, choice = op + 1, 0
                first, choices = _choices(instance, state, op)
            if choice >= choices:
                break
        else:
            if count == 0:
                break
            count -= 1
            op, first, choice = _random_choice(instance, state, tally.random)
        device, spot = _target(instance, state, op, first, choice)
        limit = min(best, state.cost[0])
        cost = _move_cost(instance, state, scratch, op, device, spot, limit)
        tally.spent[0] += 1
        if cost <= best:
            ties = ties + 1 if cost == best else 1
            if below(tally.random, ties) == 0:
                best, best_op, best_device, best_spot = cost, op, device, spot
    return best, best_op, best_device, best_spot


# Moves: choice j of an op is one of D - 1 other devices, then a gap between its last producer and
# its first reader. The two gaps beside the op are no choices.


@inlined
def _choices(instance, state, op):
    """(the first gap an op can go to, its number of choices)."""
    first, last = np.int64(0), np.int64(len(state.order))
    for edge in range(instance.before_offsets[op], instance.before_offsets[op + 1]):
        first = max(first, state.position[instance.before_ops[edge]] + 1)
    for edge in range(instance.after_offsets[op], instance.after_offsets[op + 1]):
        last = min(last, np.int64(state.position[instance.after_ops[edge]]))
    return first, len(instance.capacities) - 1 + last - first - 1


@inlined
def _target(instance, state, op, first, choice):
    """(device, coordinate) of a choice."""
    others = len(instance.capacities) - 1
    home, position = np.int64(state.place[op]), state.position[op]
    if choice < others:
        return choice + (choice >= home), _at(position)
    gap = first + choice - others
    return home, 2 * (gap + 2 * (gap >= position)) + 1


@inlined
def _has_at_most(instance, state, limit):
    """Whether the neighbourhood has at most ``limit`` moves."""
    total = 0
    for op in range(len(state.order)):
        total += _choices(instance, state, op)[1]
        if total > limit:
            return False
    return True


@inlined
def _random_choice(instance, state, random):
    """(op, its first gap, choice): a uniform op; then another device or another place with equal
    probability, uniform. An op that has neither is drawn again."""
    others = len(instance.capacities) - 1
    while True:
        op = below(random, len(state.order))
        first, choices = _choices(instance, state, op)
        if others > 0 and (choices == others or below(random, 2) == 0):
            return op, first, below(random, others)
        if choices > others:
            return op, first, others + below(random, choices - others)


@inlined
def _copy(source, target):
    """Element by element: assigning an array to a slice would allocate."""
    for i in range(len(source)):
        target[i] = source[i]


# Costs.


@inlined
def _current_cost(instance, state):
    cost, excess = 0.0, 0.0
    if instance.with_memory:
        for device in range(len(instance.capacities)):
            peak = np.float64(state.tree[device, 1])
            cost = max(cost, peak)
            excess += max(peak - instance.capacities[device], 0.0)
    if excess > 0.0:
        return instance.ceiling + excess
    return state.until[-1] if instance.with_makespan else cost


@inlined
def _move_cost(instance, state, scratch, op, device, spot, limit):
    cost, excess = 0.0, 0.0
    if instance.with_memory:
        _changes(instance, state, scratch, op, device, spot)
        for other in range(len(instance.capacities)):
            peak = np.float64(_changed_peak(state, scratch, other))
            cost = max(cost, peak)
            excess += max(peak - instance.capacities[other], 0.0)
    if excess > 0.0:
        return instance.ceiling + excess
    if instance.with_makespan:
        return _changed_makespan(instance, state, scratch, op, device, spot, limit)
    return cost


@jit
def move(instance, state, scratch, op, device, spot):
    """Takes an op to a device and to a gap, or to its own coordinate."""
    position = np.int64(state.position[op])
    if instance.with_memory:
        _changes(instance, state, scratch, op, device, spot)
        for other in range(len(instance.capacities)):
            _move_memory(state, scratch, other, position, spot)
    _move_op(state, op, device, spot)
    if instance.with_memory:
        for entry in range(instance.touched_offsets[op], instance.touched_offsets[op + 1]):
            _find_readers(instance, state, instance.touched[entry])
    if instance.with_makespan:
        _time_all(instance, state, scratch, min(position, np.int64(state.position[op])))
    state.cost[0] = _current_cost(instance, state)


@inlined
def _new_position(position, spot):
    """The position of an op that goes from its position to a coordinate."""
    return spot // 2 - (spot // 2 > position)


@inlined
def _move_op(state, op, device, spot):
    old, new = state.position[op], _new_position(state.position[op], spot)
    step = 1 if new > old else -1
    for position in range(old, new, step):
        state.order[position] = state.order[position + step]
        state.position[state.order[position]] = position
    state.order[new] = op
    state.position[op] = new
    state.place[op] = device


# Memory.


@inlined
def _at(position):
    """The coordinate of the op at a position."""
    return np.int64(2 * position + 2)


@inlined
def _end(state):
    return np.int64(2 * len(state.order) + 2)


@inlined
def _find_readers(instance, state, tensor):
    state.first[tensor, :] = -1
    state.last[tensor, :] = -1
    for entry in range(instance.reader_offsets[tensor], instance.reader_offsets[tensor + 1]):
        op = instance.readers[entry]
        device, position = state.place[op], state.position[op]
        first, last = state.first[tensor, device], state.last[tensor, device]
        if first < 0 or position < state.position[first]:
            state.first[tensor, device] = op
        if last < 0 or position > state.position[last]:
            state.last[tensor, device] = op


@inlined
def _interval(instance, tensor, device, home, made, first, last, reach, end):
    """(from, to) coordinates of a copy; (end + 1, end) if there is none.

    ``home`` is the producer's device or -1, ``made`` the producer's coordinate; ``first`` and
    ``last`` are those of the readers on the device, ``last`` -1 if there are none; ``reach`` is
    the last of the first readers elsewhere.
    """
    if device == home:
        return made, end if instance.persistent[tensor] else max(made, max(last, reach))
    if last < 0:
        return end + 1, end
    if home < 0:
        return np.int64(0), end if instance.persistent[tensor] else last
    return first, last


@inlined
def _fill_tree(instance, state, scratch):
    state.tree[:] = 0
    leaves, end = state.tree.shape[1] // 2, _end(state)
    for op in range(len(state.order)):
        place, here = state.place[op], leaves + _at(state.position[op])
        state.tree[place, leaves] += instance.private[op]
        state.tree[place, here] += instance.workspace[op]
        state.tree[place, here + 1] -= instance.workspace[op]
    for tensor in range(len(instance.size)):
        if instance.size[tensor] > 0:
            _add_intervals(instance, state, scratch, tensor)
    for device in range(len(instance.capacities)):
        for leaf in range(leaves + 1, leaves + end + 1):
            state.tree[device, leaf] += state.tree[device, leaf - 1]
        for node in range(leaves + end + 1, 2 * leaves):
            state.tree[device, node] = 0
        _refresh(state.tree[device], 0, end)


@inlined
def _add_intervals(instance, state, scratch, tensor):
    """A tensor's bytes, as differences in the leaves."""
    leaves, end = state.tree.shape[1] // 2, _end(state)
    producer, spans = instance.producer[tensor], scratch.spans
    made = _at(state.position[producer]) if producer >= 0 else np.int64(0)
    home = np.int64(state.place[producer] if producer >= 0 else -1)
    for device in range(len(instance.capacities)):
        first, last = state.first[tensor, device], state.last[tensor, device]
        spans[0, device] = _at(state.position[first]) if first >= 0 else end + 1
        spans[1, device] = _at(state.position[last]) if last >= 0 else -1
    reach = _reach(spans[0], spans[1], home)
    for device in range(len(instance.capacities)):
        first, last = spans[0, device], spans[1, device]
        birth, death = _interval(instance, tensor, device, home, made, first, last, reach, end)
        if birth <= end:
            state.tree[device, leaves + birth] += instance.size[tensor]
        if death < end:
            state.tree[device, leaves + death + 1] -= instance.size[tensor]


@inlined
def _refresh(tree, low, high):
    """The maxima above the leaves of coordinates low..high."""
    leaves = len(tree) // 2
    low, high = (leaves + low) >> 1, (leaves + high) >> 1
    while low > 0:
        for node in range(low, high + 1):
            tree[node] = max(tree[2 * node], tree[2 * node + 1])
        low, high = low >> 1, high >> 1


@inlined
def _largest(tree, low, high):
    """The maximum over coordinates low..high, at least one."""
    leaves = len(tree) // 2
    low, high = leaves + low, leaves + high + 1
    largest = tree[low]
    while low < high:
        if low & 1:
            largest = max(largest, tree[low])
            low += 1
        if high & 1:
            high -= 1
            largest = max(largest, tree[high])
        low, high = low >> 1, high >> 1
    return largest


@inlined
def _changes(instance, state, scratch, op, device, spot):
    """The steps by which a move changes the memory of each device, by coordinate."""
    scratch.steps[:] = 0
    scratch.born[:] = 0
    scratch.died[:] = 0
    home, here, end = np.int64(state.place[op]), _at(state.position[op]), _end(state)
    for entry in range(instance.touched_offsets[op], instance.touched_offsets[op + 1]):
        _tensor_changes(instance, state, scratch, instance.touched[entry], op, device, spot)
    workspace = instance.workspace[op]
    if workspace > 0:
        _add_step(scratch, home, here, -workspace, end)
        _add_step(scratch, home, here + 1, workspace, end)
        _add_step(scratch, device, spot, workspace, end)
        _add_step(scratch, device, spot + 1, -workspace, end)
        scratch.born[device] += workspace
        scratch.died[device] += workspace
    if device != home and instance.private[op] > 0:
        _add_step(scratch, home, np.int64(0), -instance.private[op], end)
        _add_step(scratch, device, np.int64(0), instance.private[op], end)
    for other in range(len(instance.capacities)):
        _sort(scratch.at[other], scratch.by[other], scratch.steps[other])


@inlined
def _tensor_changes(instance, state, scratch, tensor, op, device, spot):
    producer, end = instance.producer[tensor], _end(state)
    if producer < 0 and instance.persistent[tensor] and device == state.place[op]:
        return
    made = _at(state.position[producer]) if producer >= 0 else np.int64(0)
    home = np.int64(state.place[producer] if producer >= 0 else -1)
    new_made, new_home = (spot, device) if producer == op else (made, home)
    _find_spans(instance, state, scratch, tensor, op, device, spot)
    reach = _reach(scratch.spans[0], scratch.spans[1], home)
    new_reach = _reach(scratch.spans[2], scratch.spans[3], new_home)
    for other in range(len(instance.capacities)):
        first, last = scratch.spans[0, other], scratch.spans[1, other]
        old = _interval(instance, tensor, other, home, made, first, last, reach, end)
        first, last = scratch.spans[2, other], scratch.spans[3, other]
        new = _interval(instance, tensor, other, new_home, new_made, first, last, new_reach, end)
        _replace(scratch, other, old, new, instance.size[tensor], spot, end)


@inlined
def _find_spans(instance, state, scratch, tensor, op, device, spot):
    """Coordinates of a tensor's first and last reader on each device, before and after a move."""
    spans, end, home = scratch.spans, _end(state), state.place[op]
    reads = instance.producer[tensor] != op
    for other in range(len(instance.capacities)):
        first, last = state.first[tensor, other], state.last[tensor, other]
        spans[0, other] = _at(state.position[first]) if first >= 0 else end + 1
        spans[1, other] = _at(state.position[last]) if last >= 0 else -1
        spans[2, other], spans[3, other] = spans[0, other], spans[1, other]
        if reads and other == home and (first == op or last == op):
            without = _readers_without(instance, state, tensor, other, op, end)
            spans[2, other], spans[3, other] = without
        if reads and other == device:
            spans[2, other] = min(spans[2, other], spot)
            spans[3, other] = max(spans[3, other], spot)


@inlined
def _reach(first, last, home):
    """The last of the first readers on devices other than the home; -1 if there are none."""
    reach = np.int64(-1)
    for device in range(len(first)):
        if device != home and last[device] >= 0:
            reach = max(reach, first[device])
    return reach


@inlined
def _replace(scratch, device, old, new, size, spot, end):
    """The steps where one (from, to) interval takes the place of another."""
    if old[0] != new[0]:
        _add_step(scratch, device, old[0], -size, end)
        _add_step(scratch, device, new[0], size, end)
        scratch.born[device] += size if new[0] == spot else 0
    if old[1] != new[1]:
        _add_step(scratch, device, old[1] + 1, size, end)
        _add_step(scratch, device, new[1] + 1, -size, end)
        scratch.died[device] += size if new[1] == spot else 0


@inlined
def _readers_without(instance, state, tensor, device, op, end):
    """(first, last) coordinates of a tensor's readers on a device, one op left out."""
    first, last = np.int64(end + 1), np.int64(-1)
    for entry in range(instance.reader_offsets[tensor], instance.reader_offsets[tensor + 1]):
        reader = instance.readers[entry]
        if reader != op and state.place[reader] == device:
            first = min(first, _at(state.position[reader]))
            last = max(last, _at(state.position[reader]))
    return first, last


@inlined
def _add_step(scratch, device, at, by, end):
    if at <= end:
        count = scratch.steps[device]
        scratch.at[device, count] = at
        scratch.by[device, count] = by
        scratch.steps[device] = count + 1


@inlined
def _sort(keys, values, count):
    """Shell's sort: there are a handful of steps, but thousands at an op with many inputs."""
    gap = count
    while gap > 1:
        gap = max(1, gap * 5 // 11)
        for i in range(gap, count):
            key, value, hole = keys[i], values[i], i
            while hole >= gap and keys[hole - gap] > key:
                keys[hole], values[hole] = keys[hole - gap], values[hole - gap]
                hole -= gap
            keys[hole], values[hole] = key, value


@inlined
def _changed_peak(state, scratch, device):
    """Bytes: the maximum of the old memory plus its change."""
    tree, count = state.tree[device], scratch.steps[device]
    if count == 0:
        return tree[1]
    low, end, change, peak = 0, _end(state), 0, 0
    for step in range(count):
        at = scratch.at[device, step]
        if at > low:
            peak = max(peak, change + _largest(tree, low, at - 1))
            low = at
        change += scratch.by[device, step]
    return max(peak, change + _largest(tree, low, end))


@inlined
def _move_memory(state, scratch, device, position, spot):
    """Adds the changes to the leaves, and renumbers the coordinates if the op goes to a gap."""
    tree, count, end = state.tree[device], scratch.steps[device], _end(state)
    leaves = len(tree) // 2
    low, high, change = end, 0, 0
    for step in range(count):
        at, by = scratch.at[device, step], scratch.by[device, step]
        low, change = min(low, at), change + by
        high = scratch.at[device, step + 1] - 1 if step + 1 < count else end
        if change != 0:
            for leaf in range(leaves + at, leaves + high + 1):
                tree[leaf] += change
        elif step + 1 == count:
            high = at
    here = _at(position)
    if spot != here:
        during = tree[leaves + spot]
        before, after = during - scratch.born[device], during - scratch.died[device]
        _rotate(tree, here, spot, (before, during, after))
        low = min(low, min(spot, here - 1))
        high = max(high, max(spot, here + 1))
    if low <= high:
        _refresh(tree, low, high)


@inlined
def _rotate(tree, here, spot, levels):
    """Takes out coordinates ``here`` and the gap beside it, and puts three in place of a gap."""
    leaves = len(tree) // 2
    if spot > here:  # later
        for leaf in range(leaves + here + 1, leaves + spot):
            tree[leaf - 2] = tree[leaf]
        at = leaves + spot - 2
    else:
        for leaf in range(leaves + here - 1, leaves + spot, -1):
            tree[leaf + 2] = tree[leaf]
        at = leaves + spot
    tree[at], tree[at + 1], tree[at + 2] = levels


# Makespan.


@jit
def _time_all(instance, state, scratch, start):
    """Finish times from a position on, and all that follows from them."""
    count = len(state.order)
    _free_before(state, scratch.free, start)
    state.until[0] = 0.0
    for position in range(start, count):
        if position % STRIDE == 0:
            _copy(scratch.free, state.free[position // STRIDE])
        op = state.order[position]
        device = state.place[op]
        begin = scratch.free[device]
        for edge in range(instance.before_offsets[op], instance.before_offsets[op + 1]):
            before = instance.before_ops[edge]
            crosses = state.place[before] != device
            delay = instance.before_delay[edge] if crosses else 0.0
            begin = max(begin, state.finish[before] + delay)
        state.finish[op] = scratch.free[device] = begin + instance.duration[op]
        state.until[position + 1] = max(state.until[position], state.finish[op])
    state.since[count] = 0.0
    scratch.next[:] = -1
    for position in range(count - 1, -1, -1):
        op = state.order[position]
        state.since[position] = max(state.since[position + 1], state.finish[op])
        state.tail[op] = _tail(instance, state, op, scratch.next[state.place[op]])
        scratch.next[state.place[op]] = op


@inlined
def _tail(instance, state, op, following):
    """us from an op's finish to the end: through its readers, or the next op on its device."""
    tail = 0.0
    if following >= 0:
        tail = instance.duration[following] + state.tail[following]
    for edge in range(instance.after_offsets[op], instance.after_offsets[op + 1]):
        after = instance.after_ops[edge]
        crosses = state.place[after] != state.place[op]
        delay = instance.after_delay[edge] if crosses else 0.0
        tail = max(tail, delay + instance.duration[after] + state.tail[after])
    return tail


@inlined
def _free_before(state, free, position):
    """When the devices are free before a position."""
    block = position // STRIDE
    if block == 0:
        free[:] = 0.0
    else:
        _copy(state.free[block], free)
    for earlier in range(block * STRIDE, position):
        op = state.order[earlier]
        free[state.place[op]] = state.finish[op]


@inlined
def _changed_makespan(instance, state, scratch, op, device, spot, limit):
    """us: the makespan after a move; infinity once it is sure to be above ``limit``."""
    old, home = np.int64(state.position[op]), state.place[op]
    new = _new_position(old, spot)
    _free_before(state, scratch.free, min(old, new))
    _copy(scratch.free, scratch.old_free)
    scratch.clock[0] += 1
    state.place[op] = device
    makespan, reach = _time_window(instance, state, scratch, op, home, old, new)
    following = max(old, new) + 1
    makespan = _time_rest(instance, state, scratch, following, makespan, reach, limit * ROUNDING)
    state.place[op] = home
    return makespan


@inlined
def _time_window(instance, state, scratch, op, home, old, new):
    """(the last finish so far, the last position affected), once an op's old and new position and
    all between are timed. Its place is the new one already."""
    low, high = min(old, new), max(old, new)
    makespan, reach = state.until[low], high
    for position in range(low, high + 1):
        leaver = np.int64(state.order[position])
        scratch.old_free[home if leaver == op else state.place[leaver]] = state.finish[leaver]
        if position == new:
            current = np.int64(op)
        elif old < new:
            current = np.int64(state.order[position + 1])
        else:
            current = np.int64(state.order[position - 1])
        finish = _finish(instance, state, scratch, current)
        makespan = max(makespan, finish)
        if current == op or finish != state.finish[current]:
            reach = max(reach, _mark_readers(instance, state, scratch, current))
    return makespan, reach


@inlined
def _time_rest(instance, state, scratch, position, makespan, reach, bound):
    """us: the makespan, given what is affected before a position; infinity once above ``bound``.

    An op has the same ops behind it as before the move, so that its new finish and its old tail
    bound the makespan. Devices are unsettled that are not free when they were before the move.
    """
    unsettled = 0
    for device in range(len(instance.capacities)):
        unsettled += scratch.free[device] != scratch.old_free[device]
    while position < len(state.order) and (unsettled > 0 or position <= reach):
        op = np.int64(state.order[position])
        device, finish = state.place[op], state.finish[op]
        settled = scratch.free[device] == scratch.old_free[device]
        if settled and scratch.dirty[op] != scratch.clock[0]:
            scratch.free[device] = finish
        else:
            finish = _finish(instance, state, scratch, op)
            unsettled += settled
            unsettled -= finish == state.finish[op]
            if finish != state.finish[op]:
                if finish + state.tail[op] > bound:
                    return np.inf
                reach = max(reach, _mark_readers(instance, state, scratch, op))
        scratch.old_free[device] = state.finish[op]
        makespan = max(makespan, finish)
        position += 1
    return max(makespan, state.since[position])


@inlined
def _finish(instance, state, scratch, op):
    """An op's new finish time; it runs next on its device."""
    device, clock = state.place[op], scratch.clock[0]
    begin = scratch.free[device]
    for edge in range(instance.before_offsets[op], instance.before_offsets[op + 1]):
        before = instance.before_ops[edge]
        crosses = state.place[before] != device
        delay = instance.before_delay[edge] if crosses else 0.0
        timed = scratch.stamp[before] == clock
        finish = scratch.finish[before] if timed else state.finish[before]
        begin = max(begin, finish + delay)
    scratch.stamp[op] = clock
    scratch.finish[op] = scratch.free[device] = begin + instance.duration[op]
    return scratch.finish[op]


@inlined
def _mark_readers(instance, state, scratch, op):
    """Marks the ops that read from an op to be timed anew; returns the last one's position."""
    last = np.int64(-1)
    for edge in range(instance.after_offsets[op], instance.after_offsets[op + 1]):
        after = instance.after_ops[edge]
        scratch.dirty[after] = scratch.clock[0]
        last = max(last, state.position[after])
    return last

"""The compiled loop of dispatching: the best pair of a ready op and a device, step by step.

What a pair looks like is FEATURES numbers; its score is their weighted sum, and the pair of least
score runs next. Most of the sum changes only when an op runs that shares inputs: it is kept for
each pair, so that a step adds to it what depends on the devices' use, peaks and times.
"""

from typing import NamedTuple

import numpy as np

from regal_jax.native.compilation import inlined, jit

NAMES = (
    "need",  # bytes in use on the device while the op runs
    "rise",  # of these, above the device's peak so far
    "over",  # above the peak of all devices so far
    "beyond",  # above the device's capacity
    "copies",  # bytes of inputs that are on other devices, not here
    "kept",  # of these, persistent ones
    "first",  # bytes of inputs that exist from the start and are nowhere yet
    "freed",  # bytes on all devices that no op needs after this one
    "growth",  # outputs and copies less what is freed
    "sooner",  # bytes of inputs, each over the number of its readers to come, if at most FEW
    "above",  # in use on the device now, above the mean of all devices
    "quiet",  # whether it needs no more than the peak so far, and doesn't grow
    "at_home",  # part of the bytes of inputs that is on the device
    "place",  # in program order, from 0 to 1
    "since",  # the step it is ready since, over the number of ops
    "levels",  # ops on the longest path behind it, over the graph's depth
    "valley",  # bytes by which use grows to the lowest point of the chain that it begins
    "hill",  # bytes above use that the chain needs until then
    "pipeline",  # distance of the device from where program order cut into parts would put it
    "fold",  # the same of the order by the distance to the graph's nearest end
    "start",  # us when it would start
    "idle",  # us that the device would wait for it
    "work",  # us of its duration
    "tail",  # us of the longest path behind it
    "late",  # us by which that path would end after the bound of the makespan
)
"""What is known of a pair. Bytes and us are over the graph's ``bytes_scale`` and ``us_scale``."""

FEATURES = len(NAMES)
(
    NEED,
    RISE,
    OVER,
    BEYOND,
    COPIES,
    KEPT,
    FIRST,
    FREED,
    GROWTH,
    SOONER,
    ABOVE,
    QUIET,
    AT_HOME,
    PLACE,
    SINCE,
    LEVELS,
    VALLEY,
    HILL,
    PIPELINE,
    FOLD,
    START,
    IDLE,
    WORK,
    TAIL,
    LATE,
) = range(FEATURES)

TIMED = START
"""The first of the features that depend on time."""
OF_BYTES = (
    *(NEED, RISE, OVER, BEYOND, COPIES, KEPT, FIRST, FREED, GROWTH, SOONER, ABOVE),
    *(VALLEY, HILL),
)
OF_US = (START, IDLE, WORK, TAIL, LATE)
FEW = 8
"""Readers to come of a tensor that may soon be free."""


class Columns(NamedTuple):
    """A graph of O ops and T tensors for dispatching on D devices.

    Attributes:
      size: float64[T], workspace: float64[O], bytes. persistent: bool[T]. producer: int32[T].
      input_offsets, inputs: the tensors that ops read; output_offsets, outputs: that they make;
        reader_offsets, readers: the ops that read a tensor.
      missing: int64[O], inputs of an op that others make.
      duration: float64[O], delay: float64[T], us: of a copy to another device.
      place, levels, fold: float64[O], from 0 to 1. tail: float64[O], us.
      valley, hill: float64[O], bytes.
      room: float64[D], bytes of the devices' memory.
      scales: bytes_scale and us_scale, positive.
    """

    size: np.ndarray
    workspace: np.ndarray
    persistent: np.ndarray
    producer: np.ndarray
    input_offsets: np.ndarray
    inputs: np.ndarray
    output_offsets: np.ndarray
    outputs: np.ndarray
    reader_offsets: np.ndarray
    readers: np.ndarray
    missing: np.ndarray
    duration: np.ndarray
    delay: np.ndarray
    place: np.ndarray
    levels: np.ndarray
    fold: np.ndarray
    tail: np.ndarray
    valley: np.ndarray
    hill: np.ndarray
    room: np.ndarray
    scales: tuple[float, float]


class State(NamedTuple):
    """What has run so far.

    Attributes:
      here: bool[T, D], on which devices a tensor is. holders: int64[T], on how many.
      left: int64[T], readers to come.
      use, peak: float64[D], bytes. free: float64[D], us.
      device: int32[O], finish: float64[O], of ops that have run.
      missing: int64[O], inputs that nobody has made. since: float64[O].
      ready: int64[O], ops that may run. is_ready: bool[O].
      known: float64[O, D, 4], of pairs of ready ops: KEPT_SCORE, ADDED, CALM, ARRIVAL.
      changed: int64[O], ready ops of which more is known. stamp: int64[O], the step of that.
    """

    here: np.ndarray
    holders: np.ndarray
    left: np.ndarray
    use: np.ndarray
    peak: np.ndarray
    free: np.ndarray
    device: np.ndarray
    finish: np.ndarray
    missing: np.ndarray
    since: np.ndarray
    ready: np.ndarray
    is_ready: np.ndarray
    known: np.ndarray
    changed: np.ndarray
    stamp: np.ndarray


KEPT_SCORE, ADDED, CALM, ARRIVAL = range(4)
"""Of a pair: the part of its score that stays; the bytes that it adds to what is in use; the weight
of "quiet", if it doesn't grow; us when its inputs are there."""


def new_state(num_ops: int, num_tensors: int, num_devices: int) -> State:
    """Memory for ``dispatch``, of one thread."""
    ints, floats = (np.empty(num_ops, np.int64) for _ in range(4)), np.empty((2, num_ops))
    missing, ready, changed, stamp = ints
    use, peak, free = np.empty((3, num_devices))
    return State(
        here=np.empty((num_tensors, num_devices), np.bool_),
        holders=np.empty(num_tensors, np.int64),
        left=np.empty(num_tensors, np.int64),
        use=use,
        peak=peak,
        free=free,
        device=np.empty(num_ops, np.int32),
        finish=floats[0],
        missing=missing,
        since=floats[1],
        ready=ready,
        is_ready=np.empty(num_ops, np.bool_),
        known=np.empty((num_ops, num_devices, 4)),
        changed=changed,
        stamp=stamp,
    )


@jit
def dispatch(columns, state, weights, orders, placements):
    """Fills orders and placements int32[B, O] by weights float64[B, FEATURES], of bytes and us."""
    for row in range(len(weights)):
        timed = False
        for feature in range(TIMED, FEATURES):
            timed = timed or weights[row, feature] != 0.0
        count = _reset(columns, state, weights, row)
        for step in range(len(columns.workspace)):
            at, device = _best(columns, state, count, weights, row, timed)
            op = state.ready[at]
            count -= 1
            state.ready[at] = state.ready[count]
            state.is_ready[op] = False
            orders[row, step], placements[row, op] = op, device
            _run(columns, state, op, device, step, weights, row)
            count = _more_ready(columns, state, op, step, count, weights, row)


@inlined
def _reset(columns, state, weights, row):
    """How many ops are ready at first."""
    devices, count = len(state.use), 0
    for device in range(devices):
        state.use[device], state.peak[device], state.free[device] = 0.0, 0.0, 0.0
    for tensor in range(len(columns.size)):
        state.left[tensor] = columns.reader_offsets[tensor + 1] - columns.reader_offsets[tensor]
        state.holders[tensor] = 0
        for device in range(devices):
            state.here[tensor, device] = False
    for op in range(len(columns.workspace)):
        state.missing[op], state.since[op], state.stamp[op] = columns.missing[op], 0.0, -1
        state.is_ready[op] = columns.missing[op] == 0
        if state.is_ready[op]:
            state.ready[count] = op
            count += 1
    for at in range(count):
        _look(columns, state, state.ready[at], weights, row)
    return count


@inlined
def _best(columns, state, count, weights, row, timed):
    """(index in ``ready``, device) of the pair of least score; ties: first in program order, then
    the lowest device."""
    best, best_device, least, place = 0, 0, np.inf, np.inf
    top, mean, devices = 0.0, 0.0, len(state.use)
    for device in range(devices):
        top = max(top, state.peak[device])
        mean += state.use[device] / devices
    for at in range(count):
        op = state.ready[at]
        for device in range(devices):
            use = state.use[device]
            need = use + state.known[op, device, ADDED]
            score = state.known[op, device, KEPT_SCORE]
            score += weights[row, NEED] * need + weights[row, ABOVE] * (use - mean)
            score += weights[row, RISE] * max(0.0, need - state.peak[device])
            score += weights[row, OVER] * max(0.0, need - top)
            score += weights[row, BEYOND] * max(0.0, need - columns.room[device])
            if need <= top:
                score += state.known[op, device, CALM]
            if timed:
                score += _of_time(columns, state, op, device, weights, row)
            if score < least or (score == least and columns.place[op] < place):
                best, best_device, least, place = at, device, score, columns.place[op]
    return best, best_device


@inlined
def _of_time(columns, state, op, device, weights, row):
    free = state.free[device]
    start = max(free, state.known[op, device, ARRIVAL])
    late = start + columns.duration[op] + columns.tail[op] - columns.scales[1]
    score = weights[row, START] * start + weights[row, IDLE] * (start - free)
    return score + weights[row, LATE] * max(0.0, late)


@inlined
def _look(columns, state, op, weights, row):
    """Fills what is known of a ready op."""
    freed, sooner, made, devices = 0.0, 0.0, 0.0, len(state.use)
    for at in range(columns.input_offsets[op], columns.input_offsets[op + 1]):
        tensor = columns.inputs[at]
        size, left = columns.size[tensor], state.left[tensor]
        if left <= FEW:
            sooner += size / left
        if left == 1 and not columns.persistent[tensor]:
            freed += size * state.holders[tensor]
    for at in range(columns.output_offsets[op], columns.output_offsets[op + 1]):
        made += columns.size[columns.outputs[at]]
    score = weights[row, FREED] * freed + weights[row, SOONER] * sooner
    score += weights[row, PLACE] * columns.place[op] + weights[row, SINCE] * state.since[op]
    score += weights[row, LEVELS] * columns.levels[op]
    score += weights[row, VALLEY] * columns.valley[op] + weights[row, HILL] * columns.hill[op]
    score += weights[row, WORK] * columns.duration[op] + weights[row, TAIL] * columns.tail[op]
    for device in range(devices):
        _look_at_pair(columns, state, op, device, weights, row, score, freed, made)


@inlined
def _look_at_pair(columns, state, op, device, weights, row, score, freed, made):
    copies, kept, first, total, arrival = 0.0, 0.0, 0.0, 0.0, 0.0
    for at in range(columns.input_offsets[op], columns.input_offsets[op + 1]):
        tensor = columns.inputs[at]
        size, maker = columns.size[tensor], columns.producer[tensor]
        total += size
        if maker >= 0:
            away = state.device[maker] != device
            arrival = max(arrival, state.finish[maker] + (columns.delay[tensor] if away else 0.0))
        if not state.here[tensor, device]:
            if maker >= 0 or state.holders[tensor] > 0:
                copies += size
                if columns.persistent[tensor]:
                    kept += size
            else:
                first += size
    growth, centre = made + copies - freed, (device + 0.5) / len(state.use)
    score += weights[row, COPIES] * copies + weights[row, KEPT] * kept
    score += weights[row, FIRST] * first + weights[row, GROWTH] * growth
    if total > 0.0:
        score += weights[row, AT_HOME] * (total - copies - first) / total
    score += weights[row, PIPELINE] * abs(columns.place[op] - centre)
    score += weights[row, FOLD] * abs(columns.fold[op] - centre)
    state.known[op, device, KEPT_SCORE] = score
    state.known[op, device, ADDED] = made + copies + first + columns.workspace[op]
    state.known[op, device, CALM] = weights[row, QUIET] if growth <= 0.0 else 0.0
    state.known[op, device, ARRIVAL] = arrival


@inlined
def _run(columns, state, op, device, step, weights, row):
    start, changed = max(state.free[device], state.known[op, device, ARRIVAL]), 0
    state.device[op] = device
    state.finish[op] = state.free[device] = start + columns.duration[op]
    for at in range(columns.input_offsets[op], columns.input_offsets[op + 1]):
        tensor = columns.inputs[at]
        state.left[tensor] -= 1
        new = not state.here[tensor, device]
        _put(columns, state, tensor, device)
        if columns.size[tensor] > 0.0 and (new or state.left[tensor] <= FEW):
            changed = _more_changed(columns, state, tensor, step, changed)
    for at in range(columns.output_offsets[op], columns.output_offsets[op + 1]):
        _put(columns, state, columns.outputs[at], device)
    state.peak[device] = max(state.peak[device], state.use[device] + columns.workspace[op])
    for at in range(columns.input_offsets[op], columns.input_offsets[op + 1]):
        _free(columns, state, columns.inputs[at])
    for at in range(columns.output_offsets[op], columns.output_offsets[op + 1]):
        _free(columns, state, columns.outputs[at])
    for at in range(changed):
        _look(columns, state, state.changed[at], weights, row)


@inlined
def _more_changed(columns, state, tensor, step, changed):
    """Adds the ready ops that read a tensor; how many there are then."""
    for at in range(columns.reader_offsets[tensor], columns.reader_offsets[tensor + 1]):
        reader = columns.readers[at]
        if state.is_ready[reader] and state.stamp[reader] != step:
            state.stamp[reader] = step
            state.changed[changed] = reader
            changed += 1
    return changed


@inlined
def _put(columns, state, tensor, device):
    if not state.here[tensor, device]:
        state.here[tensor, device] = True
        state.holders[tensor] += 1
        state.use[device] += columns.size[tensor]


@inlined
def _free(columns, state, tensor):
    """Frees every copy of a tensor that nobody will read."""
    if state.left[tensor] == 0 and not columns.persistent[tensor]:
        for device in range(len(state.use)):
            if state.here[tensor, device]:
                state.here[tensor, device] = False
                state.use[device] -= columns.size[tensor]
        state.holders[tensor] = 0


@inlined
def _more_ready(columns, state, op, step, count, weights, row):
    """Adds ops that wait for nothing else; how many are ready then."""
    for at in range(columns.output_offsets[op], columns.output_offsets[op + 1]):
        tensor = columns.outputs[at]
        for reader_at in range(columns.reader_offsets[tensor], columns.reader_offsets[tensor + 1]):
            reader = columns.readers[reader_at]
            state.missing[reader] -= 1
            if state.missing[reader] == 0:
                state.since[reader] = (step + 1.0) / len(state.missing)
                state.is_ready[reader] = True
                state.ready[count] = reader
                count += 1
                _look(columns, state, reader, weights, row)
    return count


@jit
def fill_genes(columns, num_devices, orders, placements, genes):
    """Chromosomes float32[B, genes], zeros before, that decode to orders on placements: priorities
    fall along the order, and a copy is made right before its first reader on the device."""
    num_ops, num_tensors = len(columns.workspace), len(columns.size)
    for index in range(len(orders)):
        row, placement = genes[index], placements[index]
        for step in range(num_ops):
            op = orders[index, step]
            row[op * num_devices + placement[op]] = 1.0
            row[num_ops * num_devices + op] = 1.0 - step / num_ops
        for tensor in range(num_tensors):
            first, copies = num_ops * num_devices, num_ops * (num_devices + 1)
            earliest = np.float32(0.0)
            begin, end = columns.reader_offsets[tensor], columns.reader_offsets[tensor + 1]
            for at in range(begin, end):
                earliest = max(earliest, row[first + columns.readers[at]])
            for at in range(begin, end):
                op = columns.readers[at]
                gene = copies + tensor * num_devices + placement[op]
                row[gene] = max(row[gene], row[first + op])
            for device in range(num_devices):
                if row[copies + tensor * num_devices + device] == 0.0:
                    row[copies + tensor * num_devices + device] = earliest

"""The compiled loop of dispatching: the best pair of a ready op and a device, step by step.

What a pair looks like is a row of FEATURES numbers; its score is their weighted sum, and the pair
of least score runs next.
"""

from typing import NamedTuple

import numpy as np

from regal_jax.native.compilation import inlined_with_arrays, jit_with_arrays

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
    "sooner",  # bytes of inputs, each over the number of its readers to come
    "above",  # in use on the device now, above the mean of all devices
    "quiet",  # whether it needs no more than the peak so far, and doesn't grow
    "at_home",  # part of the bytes of inputs that is on the device
    "place",  # in program order, from 0 to 1
    "since",  # the step it is ready since, over the number of ops
    "levels",  # ops on the longest path behind it, over the graph's depth
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


class Columns(NamedTuple):
    """A graph of O ops and T tensors for dispatching on D devices.

    Attributes:
      size: float64[T], workspace: float64[O], bytes. persistent: bool[T]. producer: int32[T].
      input_offsets, inputs: the tensors that ops read; output_offsets, outputs: that they make;
        reader_offsets, readers: the ops that read a tensor.
      missing: int64[O], inputs of an op that others make.
      duration: float64[O], delay: float64[T], us: of a copy to another device.
      place, levels, fold: float64[O], from 0 to 1. tail: float64[O], us.
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
    room: np.ndarray
    scales: tuple[float, float]


class _State(NamedTuple):
    """What has run so far.

    Attributes:
      here: bool[T, D], on which devices a tensor is. left: int64[T], readers to come.
      use, peak: float64[D], bytes. free: float64[D], us.
      device: int32[O], finish: float64[O], of ops that have run. since: float64[O].
    """

    here: np.ndarray
    left: np.ndarray
    use: np.ndarray
    peak: np.ndarray
    free: np.ndarray
    device: np.ndarray
    finish: np.ndarray
    since: np.ndarray


@jit_with_arrays
def dispatch(columns, weights, num_devices, orders, placements):
    """Fills orders and placements int32[B, O] by weights float64[B, FEATURES]."""
    num_ops, num_tensors = len(columns.workspace), len(columns.size)
    state = _State(
        np.empty((num_tensors, num_devices), np.bool_),
        np.empty(num_tensors, np.int64),
        np.empty(num_devices),
        np.empty(num_devices),
        np.empty(num_devices),
        np.empty(num_ops, np.int32),
        np.empty(num_ops),
        np.empty(num_ops),
    )
    ready, missing, row = (
        np.empty(num_ops, np.int64),
        np.empty(num_ops, np.int64),
        np.zeros(FEATURES),
    )
    for index in range(len(weights)):
        _reset(columns, state)
        missing[:] = columns.missing
        timed = np.any(weights[index, TIMED:] != 0.0)
        count = 0
        for op in range(num_ops):
            if missing[op] == 0:
                ready[count] = op
                count += 1
        for step in range(num_ops):
            which, device = _best(columns, state, ready[:count], weights[index], row, timed)
            op = ready[which]
            count -= 1
            ready[which] = ready[count]
            orders[index, step], placements[index, op] = op, device
            _run(columns, state, op, device)
            count = _more_ready(columns, state, op, step, missing, ready, count)


@inlined_with_arrays
def _reset(columns, state):
    state.here[:] = False
    state.use[:], state.peak[:], state.free[:] = 0.0, 0.0, 0.0
    state.since[:] = 0.0
    for tensor in range(len(columns.size)):
        state.left[tensor] = columns.reader_offsets[tensor + 1] - columns.reader_offsets[tensor]


@inlined_with_arrays
def _best(columns, state, ready, weights, row, timed):
    """(index in ``ready``, device) of the pair of least score; ties: first in program order, then
    the lowest device."""
    best, best_device, least, place = 0, 0, np.inf, np.inf
    top, mean = state.peak.max(), state.use.mean()
    for which in range(len(ready)):
        op = ready[which]
        freed, made = _of_op(columns, state, op, row)
        for device in range(len(state.use)):
            _of_pair(columns, state, op, device, row, (freed, made, top, mean))
            if timed:
                _of_time(columns, state, op, device, row)
            score = 0.0
            for feature in range(FEATURES if timed else TIMED):
                score += weights[feature] * row[feature]
            if score < least or (score == least and columns.place[op] < place):
                best, best_device, least, place = which, device, score, columns.place[op]
    return best, best_device


@inlined_with_arrays
def _of_op(columns, state, op, row):
    """Fills what doesn't depend on the device; bytes that are freed, and made."""
    bytes_scale, us_scale = columns.scales
    freed, sooner, made = 0.0, 0.0, 0.0
    for at in range(columns.input_offsets[op], columns.input_offsets[op + 1]):
        tensor = columns.inputs[at]
        sooner += columns.size[tensor] / state.left[tensor]
        if state.left[tensor] == 1 and not columns.persistent[tensor]:
            for device in range(len(state.use)):
                if state.here[tensor, device]:
                    freed += columns.size[tensor]
    for at in range(columns.output_offsets[op], columns.output_offsets[op + 1]):
        made += columns.size[columns.outputs[at]]
    row[FREED], row[SOONER] = freed / bytes_scale, sooner / bytes_scale
    row[PLACE], row[SINCE] = columns.place[op], state.since[op]
    row[LEVELS] = columns.levels[op]
    row[WORK], row[TAIL] = columns.duration[op] / us_scale, columns.tail[op] / us_scale
    return freed, made


@inlined_with_arrays
def _of_pair(columns, state, op, device, row, of_op):
    """Fills what depends on the device, but for times."""
    freed, made, top, mean = of_op
    scale, centre = columns.scales[0], (device + 0.5) / len(state.use)
    copies, kept, first, total = 0.0, 0.0, 0.0, 0.0
    for at in range(columns.input_offsets[op], columns.input_offsets[op + 1]):
        tensor = columns.inputs[at]
        total += columns.size[tensor]
        if not state.here[tensor, device]:
            if columns.producer[tensor] >= 0 or np.any(state.here[tensor]):
                copies += columns.size[tensor]
                if columns.persistent[tensor]:
                    kept += columns.size[tensor]
            else:
                first += columns.size[tensor]
    need = state.use[device] + made + copies + first + columns.workspace[op]
    growth = made + copies - freed
    row[NEED] = need / scale
    row[RISE] = max(0.0, need - state.peak[device]) / scale
    row[OVER] = max(0.0, need - top) / scale
    row[BEYOND] = max(0.0, need - columns.room[device]) / scale
    row[COPIES], row[KEPT], row[FIRST] = copies / scale, kept / scale, first / scale
    row[GROWTH] = growth / scale
    row[ABOVE] = (state.use[device] - mean) / scale
    row[QUIET] = 1.0 if need <= top and growth <= 0.0 else 0.0
    row[AT_HOME] = (total - copies - first) / total if total > 0.0 else 0.0
    row[PIPELINE], row[FOLD] = abs(columns.place[op] - centre), abs(columns.fold[op] - centre)


@inlined_with_arrays
def _start(columns, state, op, device):
    """us when the op would start on the device."""
    start = state.free[device]
    for at in range(columns.input_offsets[op], columns.input_offsets[op + 1]):
        tensor = columns.inputs[at]
        maker = columns.producer[tensor]
        if maker >= 0:
            away = state.device[maker] != device
            start = max(start, state.finish[maker] + (columns.delay[tensor] if away else 0.0))
    return start


@inlined_with_arrays
def _of_time(columns, state, op, device, row):
    scale, start = columns.scales[1], _start(columns, state, op, device)
    row[START], row[IDLE] = start / scale, (start - state.free[device]) / scale
    row[LATE] = max(0.0, (start + columns.duration[op] + columns.tail[op]) / scale - 1.0)


@inlined_with_arrays
def _run(columns, state, op, device):
    state.device[op] = device
    start = _start(columns, state, op, device)
    state.finish[op] = state.free[device] = start + columns.duration[op]
    for at in range(columns.input_offsets[op], columns.input_offsets[op + 1]):
        _put(columns, state, columns.inputs[at], device)
    for at in range(columns.output_offsets[op], columns.output_offsets[op + 1]):
        _put(columns, state, columns.outputs[at], device)
    state.peak[device] = max(state.peak[device], state.use[device] + columns.workspace[op])
    for at in range(columns.input_offsets[op], columns.input_offsets[op + 1]):
        tensor = columns.inputs[at]
        state.left[tensor] -= 1
        _free(columns, state, tensor)
    for at in range(columns.output_offsets[op], columns.output_offsets[op + 1]):
        _free(columns, state, columns.outputs[at])


@inlined_with_arrays
def _put(columns, state, tensor, device):
    if not state.here[tensor, device]:
        state.here[tensor, device] = True
        state.use[device] += columns.size[tensor]


@inlined_with_arrays
def _free(columns, state, tensor):
    """Frees every copy of a tensor that nobody will read."""
    if state.left[tensor] == 0 and not columns.persistent[tensor]:
        for device in range(len(state.use)):
            if state.here[tensor, device]:
                state.here[tensor, device] = False
                state.use[device] -= columns.size[tensor]


@inlined_with_arrays
def _more_ready(columns, state, op, step, missing, ready, count):
    """Adds ops that wait for nothing else; how many are ready then."""
    for at in range(columns.output_offsets[op], columns.output_offsets[op + 1]):
        tensor = columns.outputs[at]
        for reader_at in range(columns.reader_offsets[tensor], columns.reader_offsets[tensor + 1]):
            reader = columns.readers[reader_at]
            missing[reader] -= 1
            if missing[reader] == 0:
                state.since[reader] = (step + 1.0) / len(missing)
                ready[count] = reader
                count += 1
    return count


@jit_with_arrays
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

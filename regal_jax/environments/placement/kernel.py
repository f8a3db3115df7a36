"""The compiled CPU kernel, numba: decodes chromosomes and costs the schedules, one pass each.

Same semantics as ``list_scheduler`` and ``peak_memory`` (pure JAX); exact, since bytes are int64.
``native`` calls it from Python, ``native_call`` from inside jitted programs. All compiled code is
in this one file, because numba's disk cache looks at the file of the outermost function alone.
"""

import functools
from typing import NamedTuple

import numba
import numpy as np
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from regal_jax.environments.placement.columns import NativeGraph

# Without numba's reference counting (`_nrt=False`: kernels may not allocate) and with every helper
# inlined, the kernel is three times as fast and compiles in half the time (benchmarks/decode.py).
_jit = functools.partial(numba.njit, cache=True, nogil=True, error_model="numpy", _nrt=False)
_inlined = functools.partial(_jit, forceinline=True)
_inlined_with_arrays = functools.partial(
    numba.njit, cache=True, nogil=True, error_model="numpy", forceinline=True
)

ABOVE = 1.0 + 1e-6
"""Lifts the cost of infeasible schedules above the ceiling by more than float32 rounds away."""


class Scratch(NamedTuple):
    """Working arrays of one thread, reused for every chromosome."""

    place: np.ndarray  # int32[O]
    waiting: np.ndarray  # int32[O], produced inputs not yet on the op's device
    uses: np.ndarray  # int32[K * D], remaining local uses of each copy
    keys: np.ndarray  # uint64[O], priorities as the heap compares them
    heap: np.ndarray  # uint64[ready steps]
    memory: np.ndarray  # int64[D], bytes in use
    finish: np.ndarray  # float64[O], us
    free: np.ndarray  # float64[D], us


@_jit()
def evaluate_rows(graph, rows, layout, cost_model, scratch, costs, steps):
    genes, bits = rows
    peak, makespan = costs
    for row in range(len(genes)):
        chromosome = (genes[row], bits[row])
        makespan[row] = _simulate(
            graph, chromosome, layout, cost_model, scratch, peak[row], steps[row]
        )


@_inlined()
def _simulate(graph, chromosome, layout, cost_model, scratch, peak, steps):
    """Runs the ready step of highest priority until none is left; returns the makespan."""
    num_devices, num_ops = layout[0], len(graph.duration)
    genes, bits = chromosome
    _place(graph, genes, bits, layout, scratch)
    _count_uses(graph, num_devices, scratch)
    for device in range(num_devices):
        peak[device] = scratch.memory[device]
        scratch.free[device] = 0.0
    ready = _push_sources(graph, bits, layout, scratch)
    count, in_heap, makespan = 0, 0, 0.0
    while ready > 0:
        step, ready = _next(scratch.heap, in_heap, ready)
        in_heap = ready
        if len(steps) > 0:
            steps[count] = step
            count += 1
        if step < num_ops:
            if cost_model[0]:
                makespan = max(makespan, _run_op(graph, step, cost_model, scratch))
            ready = _op_step(graph, step, bits, layout, scratch, peak, ready)
        else:
            ready = _transfer_step(graph, step - num_ops, bits, layout, scratch, peak, ready)
    return makespan


@_inlined()
def _place(graph, genes, bits, layout, scratch):
    """Argmax affinity, the lowest device on ties; and the memory that never moves."""
    num_devices = layout[0]
    scratch.memory[:] = 0
    for op in range(len(graph.duration)):
        best, device = genes[op * num_devices], 0
        for other in range(1, num_devices):
            affinity = genes[op * num_devices + other]
            if affinity > best:
                best, device = affinity, other
        scratch.place[op] = device
        scratch.keys[op] = _key(bits[layout[1] + op], op)
        scratch.waiting[op] = graph.num_dependencies[op]
        scratch.memory[device] += graph.private_bytes[op]


@_inlined()
def _count_uses(graph, num_devices, scratch):
    """Local uses of every copy; a home copy also serves its transfers, and itself if persistent."""
    uses, place = scratch.uses, scratch.place
    uses[:] = 0
    for tensor in range(len(graph.size)):
        base = tensor * num_devices
        for i in range(graph.consumer_offsets[tensor], graph.consumer_offsets[tensor + 1]):
            uses[base + place[graph.consumer_ops[i]]] += 1
        producer = graph.producer[tensor]
        if producer < 0:
            for device in range(num_devices):
                if uses[base + device] > 0:
                    scratch.memory[device] += graph.size[tensor]
        else:
            home = place[producer]
            held = graph.persistent[tensor]
            for device in range(num_devices):
                held += uses[base + device] > 0 and device != home
            uses[base + home] += held


@_inlined()
def _push_sources(graph, bits, layout, scratch):
    ready = 0
    for op in range(len(graph.duration)):
        if graph.num_dependencies[op] == 0:
            scratch.heap[ready] = scratch.keys[op]
            ready += 1
    return ready


@_inlined()
def _op_step(graph, op, bits, layout, scratch, peak, ready):
    """An op runs: its outputs appear, its workspace counts, what is used up goes."""
    num_devices = layout[0]
    device = scratch.place[op]
    memory = scratch.memory[device] + graph.output_bytes[op]
    peak[device] = max(peak[device], memory + graph.workspace[op])
    for tensor in range(graph.output_offsets[op], graph.output_offsets[op + 1]):
        if scratch.uses[tensor * num_devices + device] == 0:
            memory -= graph.size[tensor]
        else:
            ready = _arrive(graph, tensor, device, bits, layout, scratch, ready)
            ready = _push_transfers(graph, tensor, device, bits, layout, scratch, ready)
    for i in range(graph.release_offsets[op], graph.release_offsets[op + 1]):
        tensor = graph.release_tensors[i]
        left = scratch.uses[tensor * num_devices + device] - 1
        scratch.uses[tensor * num_devices + device] = left
        if left == 0:
            memory -= graph.size[tensor]
    scratch.memory[device] = memory
    return ready


@_inlined()
def _transfer_step(graph, transfer, bits, layout, scratch, peak, ready):
    """A tensor is copied to another device; its home copy goes if that was the last use."""
    num_devices = layout[0]
    tensor, target = graph.tracked[transfer // num_devices], transfer % num_devices
    home = scratch.place[graph.producer[tensor]]
    scratch.memory[target] += graph.size[tensor]
    peak[target] = max(peak[target], scratch.memory[target])
    scratch.uses[tensor * num_devices + home] -= 1
    if scratch.uses[tensor * num_devices + home] == 0:
        scratch.memory[home] -= graph.size[tensor]
    return _arrive(graph, tensor, target, bits, layout, scratch, ready)


@_inlined()
def _arrive(graph, tensor, device, bits, layout, scratch, ready):
    """A copy is on a device: its consumers there wait for one input less."""
    for i in range(graph.consumer_offsets[tensor], graph.consumer_offsets[tensor + 1]):
        op = graph.consumer_ops[i]
        here = scratch.place[op] == device
        waiting = scratch.waiting[op] - here
        scratch.waiting[op] = waiting
        scratch.heap[ready] = scratch.keys[op]
        ready += here & (waiting == 0)
    return ready


@_inlined()
def _push_transfers(graph, tensor, home, bits, layout, scratch, ready):
    num_devices = layout[0]
    for device in range(num_devices):
        if device != home and scratch.uses[tensor * num_devices + device] > 0:
            transfer = graph.original[tensor] * num_devices + device
            step = len(graph.duration) + transfer
            scratch.heap[ready] = _key(bits[layout[2] + transfer], step)
            ready += 1
    return ready


@_inlined()
def _run_op(graph, op, cost_model, scratch):
    """Finish time of an op: device free, inputs there, then its duration (us)."""
    _, latency, per_byte = cost_model
    device = scratch.place[op]
    start = scratch.free[device]
    for i in range(graph.release_offsets[op], graph.release_offsets[op + 1]):
        tensor = graph.release_tensors[i]
        producer = graph.producer[tensor]
        if producer >= 0:
            arrival = scratch.finish[producer]
            if scratch.place[producer] != device:
                arrival += latency + graph.size[tensor] * per_byte
            start = max(start, arrival)
    scratch.finish[op] = scratch.free[device] = start + graph.duration[op]
    return scratch.finish[op]


@_jit()
def penalised(graph, cost, peak, capacities, cost_model):
    """Infeasible schedules cost more than any feasible one, by their bytes in excess."""
    with_makespan, latency, per_byte = cost_model
    excess, ceiling = 0.0, 0.0
    for device in range(len(peak)):
        excess += max(peak[device] - capacities[device], 0.0)
        ceiling = max(ceiling, capacities[device])
    if excess == 0.0:
        return cost
    if with_makespan:
        ceiling = 0.0
        for op in range(len(graph.duration)):
            ceiling += graph.duration[op]
        for tensor in range(len(graph.size)):
            if graph.producer[tensor] >= 0:
                readers = graph.consumer_offsets[tensor + 1] - graph.consumer_offsets[tensor]
                ceiling += readers * (latency + graph.size[tensor] * per_byte)
    return ceiling * ABOVE + excess


@_inlined()
def _key(bits, step):
    """uint64 that grows with the float32 priority; on equal priorities the lower step is larger."""
    if bits == np.uint32(0x80000000):  # -0.0 equals 0.0
        bits = np.uint32(0)
    ordered = ~bits if bits >> np.uint32(31) else bits | np.uint32(0x80000000)
    return (np.uint64(ordered) << np.uint64(32)) | np.uint64(
        np.uint32(0xFFFFFFFF) - np.uint32(step)
    )


@_inlined()
def _next(heap, size, total):
    """The largest key. ``heap[:size]`` is a max-heap, ``heap[size:total]`` was appended since.

    One appended key takes the place of the key that leaves, which saves most of the sifting.
    Returns (its step, keys left); all keys left are in the heap.
    """
    key = heap[total - 1]
    left = total - 1
    for new in range(size, left):
        _sift_up(heap, new)
    if left > 0 and heap[0] > key:
        top = heap[0]
        _sift_down(heap, key, left)
        key = top
    return np.int64(np.uint32(0xFFFFFFFF) - np.uint32(key & np.uint64(0xFFFFFFFF))), left


@_inlined()
def _sift_up(heap, child):
    key = heap[child]
    while child > 0:
        parent = (child - 1) >> 1
        if heap[parent] >= key:
            break
        heap[child] = heap[parent]
        child = parent
    heap[child] = key


@_inlined()
def _sift_down(heap, key, size):
    """Puts a key at the root of a heap and lets it sink; writes one entry past the end."""
    heap[size] = 0
    hole, child = 0, 1
    while child < size:
        child += heap[child + 1] > heap[child]
        if key >= heap[child]:
            break
        heap[hole] = heap[child]
        hole, child = child, 2 * child + 1
    heap[hole] = key


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
def _buffer(buffers, index):
    """(address of the data, address of the dimensions) of an XLA_FFI_Buffer."""
    buffer = _words(_words(buffers, index + 1)[index], 6)
    return buffer[3], buffer[5]


def handle_call(frame_address):
    """The FFI handler. XLA_FFI_CallFrame: extension at word 1, args at 5.., results at 10..."""
    frame = _words(frame_address, 15)
    if frame[1] != 0:
        _write_metadata(frame)
        return types.uintp(0)
    packed, packed_dims = _buffer(frame[9], 0)
    genes, gene_dims = _buffer(frame[9], 1)
    choices, _ = _buffer(frame[9], 2)
    results, _ = _buffer(frame[14], 0)
    scratch, _ = _buffer(frame[14], 1)
    shape = _words(gene_dims, 3)
    row_words = _words(packed_dims, 2)[1]
    for index in range(shape[0]):
        rows = index * shape[1]
        _evaluate_graph(
            packed + 4 * index * row_words,
            genes + 4 * rows * shape[2],
            choices,
            results + 4 * rows,
            scratch,
            shape,
        )
    return types.uintp(0)


@_inlined_with_arrays()
def _write_metadata(frame):
    """Answers XLA's question for the API version with the version of the runtime that asks."""
    extension = _words(frame[1], 4)
    _words(extension[3], 4)[3] = _words(frame[2], 5)[4]


@_inlined_with_arrays()
def _evaluate_graph(packed, genes, choices, results, scratch_address, shape):
    graph = _unpack(packed)
    option = _words(choices, 6)
    num_devices, num_ops = option[0], option[1]
    number = carray(_pointer(types.uintp(choices + 32)), (2 + num_devices,), np.float64)
    layout = (num_devices, num_ops * num_devices, num_ops * (num_devices + 1))
    cost_model = (option[2] != 0, number[0], number[1])
    count, num_genes = shape[1], shape[2]
    rows = carray(_pointer(types.uintp(genes)), (count, num_genes), np.float32)
    bits = carray(_pointer(types.uintp(genes)), (count, num_genes), np.uint32)
    out = carray(_pointer(types.uintp(results)), (count,), np.float32)
    scratch, peak, nothing = _scratch(graph, num_devices, scratch_address)
    limit = (option[3] != 0, number[2:])
    _fill(graph, (rows, bits), layout, cost_model, limit, scratch, (peak, nothing, out))


@_jit()
def _fill(graph, rows, layout, cost_model, limit, scratch, results):
    genes, bits = rows
    peak, nothing, out = results
    limited, capacities = limit
    for row in range(len(out)):
        chromosome = (genes[row], bits[row])
        cost = _simulate(graph, chromosome, layout, cost_model, scratch, peak, nothing)
        if not cost_model[0]:
            for device in range(layout[0]):
                cost = max(cost, np.float64(peak[device]))
        if limited:
            cost = penalised(graph, cost, peak, capacities, cost_model)
        out[row] = cost


@_inlined_with_arrays()
def _unpack(address):
    """The columns of a packed graph, as ``native_graph.unpack``: six wide, then narrow."""
    lengths = _words(address, 16)
    at = address + 8 * 16
    counts, at = _wide(at, lengths[0])
    duration_at = at
    _, at = _wide(at, lengths[1])
    duration = carray(_pointer(types.uintp(duration_at)), (lengths[1],), np.float64)
    workspace, at = _wide(at, lengths[2])
    output_bytes, at = _wide(at, lengths[3])
    private_bytes, at = _wide(at, lengths[4])
    size, at = _wide(at, lengths[5])
    num_dependencies, at = _narrow(at, lengths[6])
    output_offsets, at = _narrow(at, lengths[7])
    release_offsets, at = _narrow(at, lengths[8])
    release_tensors, at = _narrow(at, lengths[9])
    producer, at = _narrow(at, lengths[10])
    persistent, at = _narrow(at, lengths[11])
    consumer_offsets, at = _narrow(at, lengths[12])
    consumer_ops, at = _narrow(at, lengths[13])
    original, at = _narrow(at, lengths[14])
    tracked, at = _narrow(at, lengths[15])
    return NativeGraph(
        counts,
        duration,
        workspace,
        output_bytes,
        private_bytes,
        size,
        num_dependencies,
        output_offsets,
        release_offsets,
        release_tensors,
        producer,
        persistent,
        consumer_offsets,
        consumer_ops,
        original,
        tracked,
    )


@_inlined_with_arrays()
def _wide(address, length):
    """(int64[length] at an address, the address behind it)."""
    return _words(address, length), address + 8 * length


@_inlined_with_arrays()
def _narrow(address, length):
    """(int32[length] at an address, the address behind it, a multiple of eight)."""
    column = carray(_pointer(types.uintp(address)), (length,), np.int32)
    return column, address + 4 * (length + length % 2)


@_inlined_with_arrays()
def _scratch(graph, num_devices, address):
    """The kernel's working arrays, laid into one buffer."""
    num_ops, num_copies = len(graph.duration), len(graph.size) * num_devices
    place, at = _narrow(address, num_ops)
    waiting, at = _narrow(at, num_ops)
    uses, at = _narrow(at, num_copies)
    keys = carray(_pointer(types.uintp(at)), (num_ops,), np.uint64)
    at += 8 * num_ops
    heap = carray(_pointer(types.uintp(at)), (num_ops + num_copies + 2,), np.uint64)
    at += 8 * (num_ops + num_copies + 2)
    memory, at = _wide(at, num_devices)
    finish = carray(_pointer(types.uintp(at)), (num_ops,), np.float64)
    at += 8 * num_ops
    free = carray(_pointer(types.uintp(at)), (num_devices,), np.float64)
    at += 8 * num_devices
    peak, at = _wide(at, num_devices)
    nothing, at = _wide(at, 0)
    return Scratch(place, waiting, uses, keys, heap, memory, finish, free), peak, nothing

"""The compiled CPU kernel, numba: decodes chromosomes and costs the schedules, one pass each.

Same semantics as ``list_scheduler`` and ``peak_memory`` (pure JAX); exact, since bytes are int64.
``batch`` calls it from Python, ``ffi`` from inside jitted programs.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from regal_jax.environments.placement.columns import NativeGraph
from regal_jax.native import bridge, heap
from regal_jax.native.compilation import inlined, inlined_with_arrays, jit
from regal_jax.native.packing import array, floats, narrow, unsigned, wide, words

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


@jit
def evaluate_rows(graph, bits, layout, cost_model, scratch, costs, steps):
    """Chromosomes come as the bits of their genes, uint32, which have an order of their own."""
    peak, makespan = costs
    for row in range(len(bits)):
        makespan[row] = _simulate(
            graph, bits[row], layout, cost_model, scratch, peak[row], steps[row]
        )


@inlined
def _simulate(graph, bits, layout, cost_model, scratch, peak, steps):
    """Runs the ready step of highest priority until none is left; returns the makespan."""
    num_devices, num_ops = layout[0], len(graph.duration)
    _place(graph, bits, layout, scratch)
    _count_uses(graph, num_devices, scratch)
    for device in range(num_devices):
        peak[device] = scratch.memory[device]
        scratch.free[device] = 0.0
    ready = _push_sources(graph, bits, layout, scratch)
    count, in_heap, makespan = 0, 0, 0.0
    while ready > 0:
        key, ready = heap.pop_largest(scratch.heap, in_heap, ready)
        step = _step(key)
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


@inlined
def _place(graph, bits, layout, scratch):
    """Argmax affinity, the lowest device on ties; and the memory that never moves."""
    num_devices = layout[0]
    scratch.memory[:] = 0
    for op in range(len(graph.duration)):
        best, device = _ordered(bits[op * num_devices]), 0
        for other in range(1, num_devices):
            affinity = _ordered(bits[op * num_devices + other])
            if affinity > best:
                best, device = affinity, other
        scratch.place[op] = device
        scratch.keys[op] = _key(bits[layout[1] + op], op)
        scratch.waiting[op] = graph.num_dependencies[op]
        scratch.memory[device] += graph.private_bytes[op]


@inlined
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


@inlined
def _push_sources(graph, bits, layout, scratch):
    ready = 0
    for op in range(len(graph.duration)):
        if graph.num_dependencies[op] == 0:
            scratch.heap[ready] = scratch.keys[op]
            ready += 1
    return ready


@inlined
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


@inlined
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


@inlined
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


@inlined
def _push_transfers(graph, tensor, home, bits, layout, scratch, ready):
    num_devices = layout[0]
    for device in range(num_devices):
        if device != home and scratch.uses[tensor * num_devices + device] > 0:
            transfer = graph.original[tensor] * num_devices + device
            step = len(graph.duration) + transfer
            scratch.heap[ready] = _key(bits[layout[2] + transfer], step)
            ready += 1
    return ready


@inlined
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


@jit
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


@jit
def penalise(graph, costs, peak, capacities, cost_model):
    """``penalised``, in place, for the costs float64[B] of peaks int64[B, D]."""
    for row in range(len(costs)):
        costs[row] = penalised(graph, costs[row], peak[row], capacities, cost_model)


@inlined
def _key(bits, step):
    """uint64 that grows with the float32 priority; on equal priorities the lower step is larger."""
    return (np.uint64(_ordered(bits)) << np.uint64(32)) | np.uint64(
        np.uint32(0xFFFFFFFF) - np.uint32(step)
    )


@inlined
def _ordered(bits):
    """uint32 that grows with the float32 whose bits these are."""
    if bits == np.uint32(0x80000000):  # -0.0 equals 0.0
        bits = np.uint32(0)
    return ~bits if bits >> np.uint32(31) else bits | np.uint32(0x80000000)


@inlined
def _step(key):
    """The step of a key."""
    return np.int64(np.uint32(0xFFFFFFFF) - np.uint32(key & np.uint64(0xFFFFFFFF)))


def handle_call(frame):
    """The FFI handler: packed graphs [N, P], chromosomes [N, B, genes] and the options to costs."""
    if bridge.is_call(frame):
        packed, packed_dims = bridge.operand(frame, 0)
        genes, gene_dims = bridge.operand(frame, 1)
        choices, _ = bridge.operand(frame, 2)
        results, scratch = bridge.result(frame, 0), bridge.result(frame, 1)
        shape, row_words = words(gene_dims, 3), words(packed_dims, 2)[1]
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


@inlined_with_arrays
def _evaluate_graph(packed, genes, choices, results, scratch_address, shape):
    graph = _unpack(packed)
    option = words(choices, 6)
    num_devices, num_ops = option[0], option[1]
    number, _ = floats(choices + 32, 2 + num_devices)
    layout = (num_devices, num_ops * num_devices, num_ops * (num_devices + 1))
    cost_model = (option[2] != 0, number[0], number[1])
    count, num_genes = shape[1], shape[2]
    bits = array(genes, (count, num_genes), np.uint32)
    out = array(results, (count,), np.float32)
    scratch, peak, nothing = _scratch(graph, num_devices, scratch_address)
    limit = (option[3] != 0, number[2:])
    _fill(graph, bits, layout, cost_model, limit, scratch, (peak, nothing, out))


@jit
def _fill(graph, bits, layout, cost_model, limit, scratch, results):
    peak, nothing, out = results
    limited, capacities = limit
    for row in range(len(out)):
        cost = _simulate(graph, bits[row], layout, cost_model, scratch, peak, nothing)
        if not cost_model[0]:
            for device in range(layout[0]):
                cost = max(cost, np.float64(peak[device]))
        if limited:
            cost = penalised(graph, cost, peak, capacities, cost_model)
        out[row] = cost


@inlined_with_arrays
def _unpack(address):
    """The columns of a packed graph, as ``columns.unpack``: six wide, then narrow."""
    lengths = words(address, 16)
    at = address + 8 * 16
    counts, at = wide(at, lengths[0])
    duration, at = floats(at, lengths[1])
    workspace, at = wide(at, lengths[2])
    output_bytes, at = wide(at, lengths[3])
    private_bytes, at = wide(at, lengths[4])
    size, at = wide(at, lengths[5])
    num_dependencies, at = narrow(at, lengths[6])
    output_offsets, at = narrow(at, lengths[7])
    release_offsets, at = narrow(at, lengths[8])
    release_tensors, at = narrow(at, lengths[9])
    producer, at = narrow(at, lengths[10])
    persistent, at = narrow(at, lengths[11])
    consumer_offsets, at = narrow(at, lengths[12])
    consumer_ops, at = narrow(at, lengths[13])
    original, at = narrow(at, lengths[14])
    tracked, at = narrow(at, lengths[15])
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


@inlined_with_arrays
def _scratch(graph, num_devices, address):
    """The kernel's working arrays, laid into one buffer."""
    num_ops, num_copies = len(graph.duration), len(graph.size) * num_devices
    place, at = narrow(address, num_ops)
    waiting, at = narrow(at, num_ops)
    uses, at = narrow(at, num_copies)
    keys, at = unsigned(at, num_ops)
    ready, at = unsigned(at, num_ops + num_copies + 2)
    memory, at = wide(at, num_devices)
    finish, at = floats(at, num_ops)
    free, at = floats(at, num_devices)
    peak, at = wide(at, num_devices)
    nothing, at = wide(at, 0)
    return Scratch(place, waiting, uses, keys, ready, memory, finish, free), peak, nothing

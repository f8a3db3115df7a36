"""The compiled CPU kernel: decodes chromosomes and costs the schedules, one pass a chromosome.

Same semantics as ``list_scheduler`` and ``peak_memory`` (pure JAX); exact, since bytes are int64.
"""

import functools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numba
import numpy as np

from regal_jax.environments.native_graph import NativeGraph

# Without numba's reference counting (`_nrt=False`: kernels may not allocate) and with every helper
# inlined, the kernel is three times as fast and compiles in half the time (benchmarks/decode.py).
_jit = functools.partial(numba.njit, cache=True, nogil=True, error_model="numpy", _nrt=False)
_inlined = functools.partial(_jit, forceinline=True)


class _Scratch(NamedTuple):
    """Working arrays of one thread, reused for every chromosome."""

    place: np.ndarray  # int32[O]
    waiting: np.ndarray  # int32[O], produced inputs not yet on the op's device
    uses: np.ndarray  # int32[K * D], remaining local uses of each copy
    keys: np.ndarray  # uint64[O], priorities as the heap compares them
    heap: np.ndarray  # uint64[ready steps]
    memory: np.ndarray  # int64[D], bytes in use
    finish: np.ndarray  # float64[O], us
    free: np.ndarray  # float64[D], us


def evaluate_batch(
    graph: NativeGraph,
    chromosomes: np.ndarray,
    *,
    num_devices: int,
    op_capacity: int | None = None,
    with_makespan: bool = False,
    latency: float = 0.0,
    per_byte: float = 0.0,
    num_threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Peak memory int64[B, D], bytes, and makespan float64[B], us, of chromosomes.

    Args:
      graph: what ``native_graph`` prepared.
      chromosomes: float32[B, genes]; the blocks of a padded chromosome start where they would with
        ``op_capacity`` ops (the graph's own number by default).
      num_devices: D.
      with_makespan: compute the makespan too (else it is zeros).
      latency, per_byte: us, of a tensor that crosses devices.
      num_threads: all cores by default, where the batch is worth it.
    """
    layout = _layout(graph, num_devices, op_capacity)
    genes = np.ascontiguousarray(chromosomes, np.float32)
    bits = genes.view(np.uint32)
    peak = np.empty((len(genes), num_devices), np.int64)
    makespan = np.zeros(len(genes))
    cost_model = (with_makespan, float(latency), float(per_byte))
    no_steps = np.empty((len(genes), 0), np.int64)

    def run(first: int, last: int) -> None:
        part = slice(first, last)
        scratch = _allocate(graph, num_devices)
        rows = (genes[part], bits[part])
        costs = (peak[part], makespan[part])
        _evaluate_rows(graph, rows, layout, cost_model, scratch, costs, no_steps[part])

    if num_threads is None:
        work = len(genes) * (int(graph.counts[0]) + len(graph.consumer_ops))
        num_threads = _num_threads() if work > _WORTH_A_THREAD else 1
    _over_threads(run, len(genes), num_threads)
    return peak, makespan


def decode_steps(
    graph: NativeGraph,
    chromosomes: np.ndarray,
    *,
    num_devices: int,
    op_capacity: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Placement int32[B, O] and steps int64[B, O + T * D] in order, -1 where there are fewer."""
    layout = _layout(graph, num_devices, op_capacity)
    genes = np.ascontiguousarray(chromosomes, np.float32)
    num_ops, num_tensors = graph.counts.tolist()
    placement = np.empty((len(genes), num_ops), np.int32)
    steps = np.full((len(genes), num_ops + num_tensors * num_devices), -1, np.int64)
    scratch = _allocate(graph, num_devices)
    costs = (np.empty((1, num_devices), np.int64), np.zeros(1))
    for row in range(len(genes)):
        one = slice(row, row + 1)
        rows = (genes[one], genes[one].view(np.uint32))
        _evaluate_rows(graph, rows, layout, (False, 0.0, 0.0), scratch, costs, steps[one])
        placement[row] = scratch.place
    return placement, steps


ABOVE = 1.0 + 1e-6
"""Lifts the cost of infeasible schedules above the ceiling by more than float32 rounds away."""

_WORTH_A_THREAD = 20_000
"""Ops and edges in a batch below which starting threads costs more than it saves (measured)."""


def _layout(graph: NativeGraph, num_devices: int, op_capacity: int | None):
    """(D, where op priorities start, where transfer priorities start)."""
    ops = int(graph.counts[0]) if op_capacity is None else op_capacity
    return num_devices, ops * num_devices, ops * (num_devices + 1)


@functools.cache
def _num_threads() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_num_threads(), thread_name_prefix="regal_jax")


def _over_threads(run, count: int, num_threads: int) -> None:
    parts = min(num_threads, count)
    if parts <= 1:
        run(0, count)
        return
    bounds = [count * i // parts for i in range(parts + 1)]
    list(_threads().map(run, bounds[:-1], bounds[1:]))


def _allocate(graph: NativeGraph, num_devices: int) -> _Scratch:
    num_ops, num_copies = len(graph.duration), len(graph.size) * num_devices
    return _Scratch(
        place=np.empty(num_ops, np.int32),
        waiting=np.empty(num_ops, np.int32),
        uses=np.empty(num_copies, np.int32),
        keys=np.empty(num_ops, np.uint64),
        heap=np.empty(num_ops + num_copies + 2, np.uint64),
        memory=np.empty(num_devices, np.int64),
        finish=np.empty(num_ops, np.float64),
        free=np.empty(num_devices, np.float64),
    )


@_jit()
def _evaluate_rows(graph, rows, layout, cost_model, scratch, costs, steps):
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

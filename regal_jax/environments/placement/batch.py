"""The compiled kernel from Python: batches of chromosomes, on all cores."""

import numpy as np

from regal_jax.environments.placement.columns import NativeGraph
from regal_jax.environments.placement.kernel import Scratch, evaluate_rows
from regal_jax.native.threads import over_threads


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
    bits = np.ascontiguousarray(chromosomes, np.float32).view(np.uint32)
    peak = np.empty((len(bits), num_devices), np.int64)
    makespan = np.zeros(len(bits))
    cost_model = (with_makespan, float(latency), float(per_byte))
    no_steps = np.empty((len(bits), 0), np.int64)

    def run(first: int, last: int) -> None:
        part = slice(first, last)
        scratch = _allocate(graph, num_devices)
        costs = (peak[part], makespan[part])
        evaluate_rows(graph, bits[part], layout, cost_model, scratch, costs, no_steps[part])

    work = len(bits) * (int(graph.counts[0]) + len(graph.consumer_ops))
    over_threads(run, len(bits), work, num_threads)
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
    bits = np.ascontiguousarray(chromosomes, np.float32).view(np.uint32)
    num_ops, num_tensors = graph.counts.tolist()
    placement = np.empty((len(bits), num_ops), np.int32)
    steps = np.full((len(bits), num_ops + num_tensors * num_devices), -1, np.int64)
    scratch = _allocate(graph, num_devices)
    costs = (np.empty((1, num_devices), np.int64), np.zeros(1))
    for row in range(len(bits)):
        one = slice(row, row + 1)
        evaluate_rows(graph, bits[one], layout, (False, 0.0, 0.0), scratch, costs, steps[one])
        placement[row] = scratch.place
    return placement, steps


def _layout(graph: NativeGraph, num_devices: int, op_capacity: int | None):
    """(D, where op priorities start, where transfer priorities start)."""
    ops = int(graph.counts[0]) if op_capacity is None else op_capacity
    return num_devices, ops * num_devices, ops * (num_devices + 1)


def _allocate(graph: NativeGraph, num_devices: int) -> Scratch:
    num_ops, num_copies = len(graph.duration), len(graph.size) * num_devices
    return Scratch(
        place=np.empty(num_ops, np.int32),
        waiting=np.empty(num_ops, np.int32),
        uses=np.empty(num_copies, np.int32),
        keys=np.empty(num_ops, np.uint64),
        heap=np.empty(num_ops + num_copies + 2, np.uint64),
        memory=np.empty(num_devices, np.int64),
        finish=np.empty(num_ops, np.float64),
        free=np.empty(num_devices, np.float64),
    )

"""What importers say of tensors and ops beyond their costs, and what follows from it.

Optional columns of ``graph.extra``, lists of strings; a graph may have either, both or none:
- ``tensors.role``: "parameter", "state" (an optimizer's moments, running statistics), "input",
  "gradient" (of a parameter), "output", or "" for anything else;
- ``ops.phase``: "forward", "backward", "update" (the optimizer's), "accumulate" (of gradients).
"""

import numpy as np

from regal_jax.graphs.computation_graph import ComputationGraph, RaggedRows

EMPTY_STATISTICS = ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm")
"""Kinds of ops whose outputs of size 0 are statistics nobody asked for; they write nothing."""


def has_role(graph: ComputationGraph, role: str) -> np.ndarray:
    """bool[T]: the tensors of a role; none in a graph without roles."""
    return _equal_to(graph, "tensors", "role", role, graph.num_tensors)


def in_phase(graph: ComputationGraph, phase: str) -> np.ndarray:
    """bool[O]: the ops of a phase; none in a graph without phases."""
    return _equal_to(graph, "ops", "phase", phase, graph.num_ops)


def parameters(graph: ComputationGraph) -> np.ndarray:
    """bool[T]: what doesn't depend on the batch: persistent, no producer, not of role "input"."""
    return graph.persistent & (graph.producer < 0) & ~has_role(graph, "input")


def in_place_writes(graph: ComputationGraph) -> np.ndarray:
    """int64[N, 2]: (tensor, op) pairs where the op may write the tensor in place; sorted.

    A new version in place is a tensor of size 0, made by an op that reads the old one; whoever
    reads the new version reads the tensor, too. Control tensors can look the same: an op that reads
    a tensor before another writes it. So some pairs may be mere readers, but no writer is missed.
    """
    version = np.flatnonzero((graph.size == 0) & (graph.producer >= 0))
    if graph.op_kinds:
        silent = np.array([kind in EMPTY_STATISTICS for kind in graph.op_kinds], bool)
        version = version[~silent[graph.producer[version]]]
    of_version, tensor = rows_at(graph.inputs, graph.producer[version])
    of_pair, reader = rows_at(graph.consumers, version[of_version])
    every = _codes(graph, graph.consumers.row_of_value(), graph.consumers.values)
    also_reads = np.isin(_codes(graph, tensor[of_pair], reader), every)
    missed = np.bincount(of_pair[~also_reads], minlength=len(tensor))
    kept = (missed == 0) & (graph.size[tensor] > 0)
    pairs = np.stack([tensor, graph.producer[version[of_version]]], axis=1)[kept]
    return np.unique(pairs.astype(np.int64), axis=0)


def rows_at(rows: RaggedRows, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(position, value), int[N] each: the values of row ``index[position]``, row after row."""
    lengths = rows.lengths()[index]
    position = np.repeat(np.arange(len(index)), lengths)
    start = rows.offsets[index] - (np.cumsum(lengths) - lengths)
    return position, rows.values[np.arange(len(position)) + start[position]]


def _equal_to(graph: ComputationGraph, table: str, key: str, value: str, length: int) -> np.ndarray:
    column = graph.extra.get(table, {}).get(key)
    if not isinstance(column, list) or len(column) != length:
        return np.zeros(length, bool)
    return np.array([entry == value for entry in column], bool)


def _codes(graph: ComputationGraph, tensor: np.ndarray, op: np.ndarray) -> np.ndarray:
    """int64[N]: one number a (tensor, op) pair."""
    return tensor.astype(np.int64) * graph.num_ops + op

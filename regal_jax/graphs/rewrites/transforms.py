"""Graphs made from a graph: sizes scaled, ops and tensors renumbered."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph, RaggedRows, ragged_rows


def scale_sizes(
    rng: np.random.Generator, graph: ComputationGraph, *, low: float = 0.5, high: float = 1.5
) -> ComputationGraph:
    """The graph with each tensor's size times an independent uniform factor (REGAL, A.1).

    Rounded to whole bytes; size 0 stays 0. Workspaces and durations are kept.
    """
    factor = rng.uniform(low, high, graph.num_tensors)
    return graph.replace(size=np.rint(graph.size * factor).astype(np.int64))


def permute(
    graph: ComputationGraph,
    op_order: Sequence[int] | np.ndarray,
    tensor_order: Sequence[int] | np.ndarray,
) -> ComputationGraph:
    """The same graph renumbered: new op ``i`` is old op ``op_order[i]``, and so for tensors.

    Both orders must be permutations, of ``0..O-1`` and ``0..T-1``. The consumers of a tensor stay
    in their order. Raises OptionError for anything but a permutation.
    """
    new_op = _inverse(op_order, graph.num_ops, "op_order")
    new_tensor = _inverse(tensor_order, graph.num_tensors, "tensor_order")
    columns = taken(graph, np.asarray(op_order, np.int64), np.asarray(tensor_order, np.int64))
    none_last = np.append(new_op, np.int32(-1))  # producer -1 looks up the last entry
    columns["producer"] = none_last[graph.producer][np.asarray(tensor_order, np.int64)]
    columns["consumers"] = ragged_rows(
        new_tensor[graph.consumers.row_of_value()],
        new_op[graph.consumers.values],
        graph.num_tensors,
    )
    return graph.replace(**columns)


def taken(graph: ComputationGraph, ops: np.ndarray, tensors: np.ndarray) -> dict[str, Any]:
    """The columns that are looked up entry by entry, for new ops and tensors by old index."""
    op_columns = ("duration", "workspace", "machine_type", "demand", "flops", "bytes_accessed")
    known = [column for column in op_columns if getattr(graph, column) is not None]
    extra = dict(graph.extra)
    for table, index in (("ops", ops), ("tensors", tensors)):
        if table in extra:
            length = graph.num_ops if table == "ops" else graph.num_tensors
            extra[table] = _taken_extra(extra[table], index, length)
    return {
        **{column: getattr(graph, column)[ops] for column in known},
        **{column: getattr(graph, column)[tensors] for column in ("size", "persistent")},
        "op_names": _taken_strings(graph.op_names, ops),
        "op_kinds": _taken_strings(graph.op_kinds, ops),
        "extra": extra,
    }


def _taken_strings(strings: tuple[str, ...], index: np.ndarray) -> tuple[str, ...]:
    return tuple(strings[i] for i in index) if strings else ()


def _taken_extra(table: Mapping[str, Any], index: np.ndarray, length: int) -> dict[str, Any]:
    """Unknown columns looked up; what isn't a list of the right length is kept as it is."""
    return {
        key: [value[i] for i in index]
        if isinstance(value, list) and len(value) == length
        else value
        for key, value in table.items()
    }


def reverse(graph: ComputationGraph) -> ComputationGraph:
    """The same ops with every precedence turned round; tensors have no size."""
    before, after = graph.op_pairs.T
    return ComputationGraph.create(
        num_ops=graph.num_ops,
        producer=after,
        size=np.zeros(len(after), np.int64),
        consumers=RaggedRows(np.arange(len(after) + 1), np.ascontiguousarray(before)),
        duration=graph.duration,
        machine_type=graph.machine_type,
        demand=graph.demand,
        capacity=graph.capacity,
        name=graph.name,
    )


def _inverse(order: Sequence[int] | np.ndarray, length: int, name: str) -> np.ndarray:
    """int32[length]: the new number of each old one."""
    order = np.asarray(order, np.int64)
    if not np.array_equal(np.sort(order), np.arange(length)):
        raise OptionError(f"{name} is not a permutation of 0..{length - 1}")
    return np.argsort(order).astype(np.int32)

"""Orders of one device that are made choice by choice, by a network or a rule (``kernel``)."""

import numpy as np

from regal_jax.environments.choosing.choices import Choosing
from regal_jax.environments.ordering import kernel
from regal_jax.environments.ordering.kernel import Columns
from regal_jax.environments.placement.bounds import working_set_bound
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph, ragged_rows


def columns(graph: ComputationGraph) -> Columns:
    """What is read of a graph (BUILD_NOTES.md, section 3, with one device)."""
    num_ops, readers, pairs = graph.num_ops, graph.consumers.lengths(), graph.op_pairs
    made = graph.outputs.sums(np.where((readers > 0) | graph.persistent, graph.size, 0))
    sole = ~graph.persistent & (readers == 1)
    shared = ~graph.persistent & (readers > 1) & (graph.size > 0)
    number = np.cumsum(shared) - 1
    tensor, op = graph.consumers.row_of_value(), graph.consumers.values
    tensor, op = number[tensor[shared[tensor]]], op[shared[tensor]]
    levels, reach = precedence.levels(graph).astype(float), np.zeros(num_ops)
    np.maximum.at(reach, pairs[:, 0], levels[pairs[:, 1]] - levels[pairs[:, 0]])
    during = graph.outputs.sums(graph.size) + graph.workspace
    start = int(graph.size[(graph.producer < 0) & (readers > 0)].sum())
    return Columns(
        during,
        made - graph.inputs.sums(np.where(sole, graph.size, 0)),
        made,
        *ragged_rows(op, tensor, num_ops),
        graph.size[shared],
        readers[shared].astype(np.int32),
        np.bincount(tensor, op, shared.sum()).astype(np.int64),
        *ragged_rows(pairs[:, 0], pairs[:, 1], num_ops),
        *ragged_rows(pairs[:, 1], pairs[:, 0], num_ops),
        levels,
        precedence.levels_to_sinks(graph).astype(float),
        reach,
        start,
        max(start, working_set_bound(graph, 1), 1),
        max(float(during.mean()), 1.0) if num_ops else 1.0,
    )


def peak_bound(graph: ComputationGraph) -> float:
    """Bytes that some op needs by itself."""
    return float(working_set_bound(graph, 1))


NEXT_OP = Choosing(kernel, columns, peak_bound)
"""Orders of one device as an environment of choices; costs are peaks, bytes."""

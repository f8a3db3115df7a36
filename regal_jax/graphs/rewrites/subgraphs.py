"""Parts of a graph, to train on (Zhang et al. 2023, "Robust Scheduling with GFlowNets", 3.3)."""

import numpy as np

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph, ragged_rows
from regal_jax.graphs.rewrites.transforms import permute, taken


def random_subgraph(
    rng: np.random.Generator, graph: ComputationGraph, num_ops: int
) -> ComputationGraph:
    """The sub-graph of a random window of ops; the graph itself if it has no more ops than asked.

    The paper trains on sub-graphs of 25 to 75 ops and doesn't tell how they are picked. Here they
    are ``num_ops`` ops in a row of a random topological order. A path between two of them runs
    inside the window, so they precede one another exactly if they do in the graph, and the window
    is as wide as the graph is there. Ops chosen independently would lose the precedence that goes
    through those left out.

    Raises:
      OptionError: if ``num_ops`` is less than 1.
    """
    if num_ops < 1:
        raise OptionError(f"num_ops is {num_ops}: a sub-graph needs at least one op")
    if num_ops >= graph.num_ops:
        return graph
    order = _random_topological_order(rng, graph)
    first = rng.integers(graph.num_ops - num_ops + 1)
    return induced_subgraph(graph, np.sort(order[first : first + num_ops]))


def induced_subgraph(graph: ComputationGraph, ops: np.ndarray) -> ComputationGraph:
    """The graph of some ops, int[N] and distinct: new op ``i`` is old op ``ops[i]``.

    Costs, sizes and labels stay. It has the tensors that these ops produce or consume, without
    other consumers; those that another op produces exist before the first step (producer -1).
    """
    new_op = np.full(graph.num_ops + 1, -1, np.int32)  # the last entry is that of producer -1
    new_op[ops] = np.arange(len(ops))
    producer, consumer = new_op[graph.producer], new_op[graph.consumers.values]
    tensor = graph.consumers.row_of_value()[consumer >= 0]
    tensors = np.union1d(np.flatnonzero(producer >= 0), tensor)
    columns = taken(graph, ops, tensors)
    columns["producer"] = producer[tensors]
    columns["consumers"] = ragged_rows(
        np.searchsorted(tensors, tensor), consumer[consumer >= 0], len(tensors)
    )
    return graph.replace(**columns)


def _random_topological_order(rng: np.random.Generator, graph: ComputationGraph) -> np.ndarray:
    """int[O]: the ready op of highest priority next, where priorities are a random permutation."""
    ops = rng.permutation(graph.num_ops)
    return ops[permute(graph, ops, np.arange(graph.num_tensors)).topological_order]

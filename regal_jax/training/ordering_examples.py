"""Graphs to examples of orders: batches of one padded shape."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from regal_jax.errors import OptionError
from regal_jax.graphs import batching
from regal_jax.graphs.batching import GraphArrays, GraphShape
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.policies.topological_order.policy import OrderingConfig, OrderingInputs
from regal_jax.search.orders import dynamic_programming
from regal_jax.training.ordering_inputs import ordering_inputs

REFERENCE_ORDERS = 100
"""Costs are reported relative to the best of so many random orders, a baseline of the paper."""


class OrderingExamples(NamedTuple):
    """Graphs of one padded shape, stacked; N of them.

    Attributes:
      inputs: what the policy sees. graph: what the cost needs.
      reference: float32[N], bytes, a peak to compare with.
    """

    inputs: OrderingInputs
    graph: GraphArrays
    reference: Any


def batches(
    graphs: Sequence[ComputationGraph], policy: OrderingConfig, batch_size: int
) -> Iterator[OrderingExamples]:
    """Examples of graphs of similar size, ``batch_size`` at a time; the last of a size may be
    smaller."""
    by_size: dict[int, list[ComputationGraph]] = {}
    for graph in graphs:
        by_size.setdefault(batching.padded_size(graph.num_ops), []).append(graph)
    for ops, members in by_size.items():
        shape, pairs = _roomy_shape(ops, members)
        for begin in range(0, len(members), batch_size):
            some = members[begin : begin + batch_size]
            rows = [_example(graph, policy, shape, pairs) for graph in some]
            yield batching.stacked(rows)


def epoch_batches(
    graphs: Sequence[ComputationGraph],
    policy: OrderingConfig,
    *,
    seed: tuple[int, int],
    batch_size: int,
    count: int,
) -> list[OrderingExamples]:
    """``count`` batches of graphs in random order, which begins again where they don't suffice.

    Smaller batches are filled up with graphs that are in them already. OptionError without graphs.
    """
    rng = np.random.default_rng(seed)
    found = list(batches(graphs, policy, batch_size))
    if not found:
        raise OptionError("no training graphs")
    chosen = rng.permutation(len(found))
    filled = [_filled(batch, batch_size) for batch in found]
    return [filled[chosen[i % len(found)]] for i in range(count)]


def _filled(batch: OrderingExamples, batch_size: int) -> OrderingExamples:
    rows = np.arange(batch_size) % len(batch.reference)
    return jax.tree.map(lambda leaf: leaf[rows], batch)


def _roomy_shape(ops: int, members: Sequence[ComputationGraph]) -> tuple[GraphShape, int]:
    """A shape for all, and a number of pairs of ops: powers of two, but for the ops, so that epochs
    of other graphs of these sizes need no compilation of their own."""
    exact = batching.padded_shape(members)
    most_pairs = max(len(graph.op_pairs) for graph in members)
    sizes = [1 << (count - 1).bit_length() for count in exact[1:]]
    return GraphShape(ops, *sizes), batching.padded_pairs(most_pairs)


def _example(graph, policy, shape, pairs: int) -> OrderingExamples:
    random_orders = dynamic_programming.best_of_random(graph, seed=0, orders=REFERENCE_ORDERS)
    return OrderingExamples(
        ordering_inputs(graph, policy, shape.ops, pairs),
        batching.graph_arrays(graph, shape),
        np.float32(max(random_orders.peak, 1)),
    )

"""Orders of one device that are made choice by choice, by a network or a rule (``kernel``)."""

import numpy as np

from regal_jax.environments.choosing.choices import Choosing
from regal_jax.environments.one_device import one_device
from regal_jax.environments.ordering import kernel
from regal_jax.environments.ordering.kernel import Columns
from regal_jax.environments.placement.bounds import working_set_bound
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph, ragged_rows
from regal_jax.search.orders import rules, xla_orders

ORDERS: dict[str, rules.Order] = {
    "program": rules.program_order,
    "depth_first": rules.depth_first,
    "lpmf": rules.least_memory_first,
    "post_order": xla_orders.xla_dfs,
}
"""Orders that a network reads an op's place in, by the feature, as the kernel has them."""


def columns(graph: ComputationGraph) -> Columns:
    """What is read of a graph (BUILD_NOTES.md, section 3, with one device)."""
    num_ops, pairs, own = graph.num_ops, graph.op_pairs, one_device(graph)
    levels, reach = precedence.levels(graph).astype(float), np.zeros(num_ops)
    np.maximum.at(reach, pairs[:, 0], levels[pairs[:, 1]] - levels[pairs[:, 0]])
    return Columns(
        own.during,
        own.growth,
        own.made,
        *own.reads,
        own.size,
        own.readers.lengths().astype(np.int32),
        own.readers.sums(np.arange(num_ops)),
        *ragged_rows(pairs[:, 0], pairs[:, 1], num_ops),
        *ragged_rows(pairs[:, 1], pairs[:, 0], num_ops),
        levels,
        precedence.levels_to_sinks(graph).astype(float),
        reach,
        np.stack([np.argsort(order(graph, 0)) for order in ORDERS.values()]).astype(np.int32),
        own.start,
        max(own.start, working_set_bound(graph, 1), 1),
        max(float(own.during.mean()), 1.0) if num_ops else 1.0,
    )


def peak_bound(graph: ComputationGraph) -> float:
    """Bytes that some op needs by itself."""
    return float(working_set_bound(graph, 1))


NEXT_OP = Choosing(kernel, columns, peak_bound)
"""Orders of one device as an environment of choices; costs are peaks, bytes."""

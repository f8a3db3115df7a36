"""What a policy over topological orders sees of a graph: features and simple rules' orders."""

import numpy as np

from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.features.ordering import ordering_features
from regal_jax.graphs.features.relations import relations
from regal_jax.policies.topological_order.policy import GUIDES, OrderingConfig, OrderingInputs
from regal_jax.search.orders import dynamic_programming, rules


def ordering_inputs(
    graph: ComputationGraph,
    config: OrderingConfig,
    num_ops: int | None = None,
    num_edges: int | None = None,
) -> OrderingInputs:
    """The inputs of a graph, padded if sizes are given."""
    related = relations(graph, num_ops, num_edges)
    found = ordering_features(graph, dimensions=config.dimensions, feature_set=config.feature_set)
    if config.guided:
        found = np.concatenate([_guides(graph), found], axis=1)
    features = np.zeros((num_ops or graph.num_ops, found.shape[1]), np.float32)
    features[: graph.num_ops] = found
    return OrderingInputs(features=features, relations=related)


def _guides(graph: ComputationGraph) -> np.ndarray:
    """float32[O, 1 + rules]: where the best rule, and every rule, puts an op, from 1 to -1."""
    orders = [rules.ORDERS[name](graph, 0) for name in GUIDES]
    peaks = [dynamic_programming.order_peak(graph, order) for order in orders]
    best = orders[int(np.argmin(peaks))]
    places = np.linspace(1.0, -1.0, graph.num_ops, dtype=np.float32)
    columns = np.empty((graph.num_ops, 1 + len(orders)), np.float32)
    for column, order in enumerate([best, *orders]):
        columns[order, column] = places
    return columns

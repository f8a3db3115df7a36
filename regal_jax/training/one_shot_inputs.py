"""What a one-shot policy sees of a machine problem: features, and the best simple rule's order."""

import numpy as np

from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.graphs import batching
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.features.rcpsp import machine_features, places
from regal_jax.graphs.features.relations import relations
from regal_jax.policies.one_shot.policy import OneShotConfig
from regal_jax.policies.topological_order.policy import OrderingInputs
from regal_jax.search.rcpsp import rules


def one_shot_inputs(
    graph: ComputationGraph,
    config: OneShotConfig,
    num_ops: int | None = None,
    num_edges: int | None = None,
) -> OrderingInputs:
    """The inputs of a graph, padded if sizes are given; OptionError if it does not fit them."""
    problem = MachineProblem(graph, generation=config.generation)
    ranked = problem.ranked_graph
    machines = "same_machine" in config.num_heads
    related = relations(ranked, num_ops, num_edges, machines=machines)
    found = machine_features(
        ranked,
        dimensions=config.dimensions,
        feature_set=config.feature_set,
        num_types=config.num_types,
    )
    if config.guided:
        found = np.column_stack([places(rules.shortest(problem).genes), found])
    features = np.zeros((num_ops or graph.num_ops, found.shape[1]), np.float32)
    features[: graph.num_ops] = found
    return OrderingInputs(features=features, relations=related)


def padded_inputs(graph: ComputationGraph, config: OneShotConfig) -> OrderingInputs:
    """The inputs of a graph, padded to one of few sizes, so that few compilations are needed."""
    num_edges = batching.padded_pairs(len(graph.op_pairs))
    return one_shot_inputs(graph, config, batching.padded_size(graph.num_ops), num_edges)

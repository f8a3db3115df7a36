"""Policies over the construction of schedules (gflownet_robust_scheduling, 3.3 and D).

A policy gives, for a partial schedule, the log-probabilities of what can be added (forward) and of
what can be taken away (backward), given a graph and a reward temperature. Two networks do so:

- "reencode", the paper's: a Topoformer over graph and state, anew for every state (``reencode``);
- "encode_once", ours: a Topoformer over the graph, once, and a small network that scores the
  actions of every state by what they lead to (``encode_once``). It doesn't look at device names, so
  it suits any number of devices, and treats states up to their renaming (``construction``).
"""

from collections.abc import Sequence

import numpy as np

from regal_jax import registry
from regal_jax.environments.construction.env import construction_problem
from regal_jax.environments.placement.tasks import task_graph, upward_ranks
from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError
from regal_jax.graphs import batching, precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.features.construction import makespan_features
from regal_jax.graphs.features.relations import relations
from regal_jax.policies.gflownet import encode_once, reencode
from regal_jax.policies.gflownet.types import FlowConfig, FlowInputs, FlowPolicy

LEAST_WINDOW = 16
"""Of padded inputs; a window of 8 instead saves few updates much time."""


@registry.policy("gflownet", FlowConfig)
def flow_policy(config: FlowConfig) -> FlowPolicy:
    """The policy of a configuration."""
    return {"reencode": reencode, "encode_once": encode_once}[config.network].policy(config)


def flow_inputs(
    graph: ComputationGraph,
    platform: Platform,
    config: FlowConfig,
    num_ops: int | None = None,
    num_edges: int | None = None,
    window: int | None = None,
) -> FlowInputs:
    """The inputs of a graph, padded if sizes are given.

    Raises:
      OptionError: if the graph does not fit the sizes, or the policy.
    """
    check_fits(graph, platform, config)
    size = graph.num_ops if num_ops is None else num_ops
    width = precedence.width(graph)
    if window is not None and window < width:
        raise OptionError(f"{graph} has up to {width} ready ops, which do not fit {window}")
    problem = construction_problem(graph, platform, size)
    found = makespan_features(graph, config.feature_set)
    features = np.zeros((size, found.shape[1]), np.float32)
    features[: graph.num_ops] = found
    tail = np.zeros(size, np.float32)
    tail[: graph.num_ops] = precedence.bottom_levels(graph)
    tasks, rank = task_graph(graph, platform), np.zeros(size, np.float32)
    rank[tasks.op] = upward_ranks(tasks)
    work = float(graph.duration.sum())
    bound = np.float32(max(work / platform.num_devices, tail.max(initial=0.0)))
    return FlowInputs(
        problem=problem,
        features=features,
        relations=relations(graph, size, num_edges),
        tail=tail,
        rank=rank,
        bound=bound if bound > 0 else np.float32(1.0),
        window=np.ones(width if window is None else window, bool),
    )


def padded_inputs(graph: ComputationGraph, platform: Platform, config: FlowConfig) -> FlowInputs:
    """The inputs of a graph, padded to one of few sizes, so that few compilations are needed."""
    return flow_inputs(graph, platform, config, *padded_sizes([graph]))


def padded_sizes(graphs: Sequence[ComputationGraph]) -> tuple[int, int, int]:
    """Ops, pairs and window, out of few, that all graphs fit into.

    A compilation takes as long as some fifty updates. Sub-graphs of 25 to 75 ops of eight real
    graphs have 11 sizes; with the ladder of ops for the window, and no least number of pairs, 50.
    """
    ops = batching.padded_size(max(graph.num_ops for graph in graphs))
    pairs = batching.padded_pairs(max(2 * ops, *(len(graph.op_pairs) for graph in graphs)))
    width = max(LEAST_WINDOW, *(precedence.width(graph) for graph in graphs))
    return ops, pairs, min(batching.padded_pairs(width), ops)


def check_fits(graph: ComputationGraph, platform: Platform, config: FlowConfig) -> None:
    """Raises OptionError for a graph or a number of devices that a policy is not for."""
    if config.network == "reencode" and platform.num_devices != config.num_devices:
        raise OptionError(
            f"the policy is for {config.num_devices} devices, not {platform.num_devices}"
        )
    if 0 < config.max_ops < graph.num_ops:
        raise OptionError(
            f"{graph.name or 'the graph'} has {graph.num_ops} ops, the policy is for at most"
            f" {config.max_ops}"
        )

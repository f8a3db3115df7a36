"""Op features for a policy that places ops on identical devices for the least makespan."""

from typing import Literal, get_args

import numpy as np

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.features.rcpsp import places
from regal_jax.graphs.precedence import (
    bottom_levels,
    closure,
    levels,
    levels_to_sinks,
    top_levels,
    unpack,
)

MakespanFeatureSet = Literal["paper", "extended"]


def makespan_features(graph: ComputationGraph, feature_set: MakespanFeatureSet) -> np.ndarray:
    """float32[O, F]: 1 feature in the "paper" set, 14 in the "extended" one.

    The "paper" set (gflownet_robust_scheduling, E.1) is the op's duration, here over the mean of
    all (not in the paper, whose are U(0, 1), so about 1 as well). The "extended" set, ours:

    - duration over the mean, and its logarithm (of 1 more);
    - duration, longest path before the op, longest path from it on, and slack, over the critical
      path;
    - hops from the sources and to the sinks, in- and out-degree in distinct ops, over the largest;
    - ancestors and descendants, over the number of ops;
    - ``places`` by critical path and by duration.

    Raises:
      OptionError: for an unknown feature set.
    """
    if feature_set not in get_args(MakespanFeatureSet):
        raise OptionError(f"feature_set is {feature_set!r}: paper or extended")
    duration = graph.duration / max(graph.duration.mean() if graph.num_ops else 0.0, 1e-300)
    if feature_set == "paper":
        return duration[:, None].astype(np.float32)
    before, after = top_levels(graph), bottom_levels(graph)
    length = max(after.max(initial=0.0), 1e-300)
    producers, consumers = graph.op_pairs.T
    descends = unpack(closure(graph))
    counts = [
        *(levels(graph), levels_to_sinks(graph)),
        *(np.bincount(ops, minlength=graph.num_ops) for ops in (consumers, producers)),
    ]
    columns = [
        *(duration, np.log1p(duration)),
        *(value / length for value in (graph.duration, before, after, length - before - after)),
        *(count / max(count.max(initial=0), 1) for count in counts),
        *(descends.sum(axis=axis) / max(graph.num_ops, 1) for axis in (0, 1)),
        *(places(after), places(graph.duration)),
    ]
    return np.column_stack(columns).astype(np.float32)

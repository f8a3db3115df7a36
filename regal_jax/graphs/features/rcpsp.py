"""Op features for a policy of machine problems: one_shot_priority_sampling, F.3.

A path's duration is the sum of those of its ops, both ends included: from the source to an op with
the op's own duration, and from the op to the target with it, too. (F.3 doesn't say; the virtual
source and target take no time.)
"""

from typing import Literal, get_args

import numpy as np

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.features.ordering import laplacian_encoding
from regal_jax.graphs.precedence import (
    bottom_levels,
    levels,
    levels_to_sinks,
    top_levels,
)

MachineFeatureSet = Literal["paper", "extended"]


def machine_features(
    graph: ComputationGraph,
    *,
    dimensions: int = 20,
    feature_set: MachineFeatureSet = "paper",
    num_types: int = 1,
) -> np.ndarray:
    """float32[O, F]: features of each op: 4 + num_types of "paper", 19 of "extended", dimensions.

    The "paper" set, each over its maximum over the ops (0 where that is 0):

    - duration; demand (0 if all demands are 1, where F.3 has no such feature);
    - the machine type, as ``num_types`` numbers of which one is 1;
    - duration of the longest path from the source, and of the longest path to the target.

    The "extended" set, ours, is as wide for any number of machine types:

    - duration; longest path from the source, and to the target; most ops on a path from the source,
      and to the target ("operations remaining"); in- and out-degree in distinct ops; all over their
      maximum;
    - demand over the capacity of the op's type;
    - load of the op's type (the sum of duration times demand, over the capacity) and the number of
      its ops, over those of the type that has most;
    - slack: what the critical path is longer than the longest path through the op, over the
      critical path;
    - the critical path over the greater of it and the largest load, one number for all ops: whether
      precedence or machines are short;
    - ``places`` by critical path, operations remaining, shortest duration, least slack and largest
      share of the capacity; and among the ops of its type by critical path and by the longest path
      from the source, shortest first.

    The last ``dimensions`` columns are the ``laplacian_encoding``, not normalised further.

    Args:
      graph: with capacities for the "extended" set.
      dimensions: of the Laplacian encoding, 0 for none.
      feature_set: see above.
      num_types: of the "paper" set's policy, which may be more than the graph has.

    Raises:
      OptionError: for an unknown feature set, negative ``dimensions``, a graph with more machine
        types than ``num_types``, or without the capacities that the extended set needs.
    """
    if feature_set not in get_args(MachineFeatureSet):
        raise OptionError(f"feature_set is {feature_set!r}: paper or extended")
    found = _paper(graph, num_types) if feature_set == "paper" else _extended(graph)
    encoding = laplacian_encoding(graph, dimensions)
    return np.concatenate([found, encoding], axis=1).astype(np.float32)


def places(priority: np.ndarray, group: np.ndarray | None = None) -> np.ndarray:
    """float64[O] in [-1, 1]: places in the order by decreasing priority, 1 first and -1 last.

    Equal priorities share their mean place, so that labels don't matter. With ``group`` int[O], the
    places are among the ops of the same group; an op alone has place 0.
    """
    from scipy.stats import rankdata  # slow to import

    if group is None:
        group = np.zeros(len(priority), np.int64)
    found = np.zeros(len(priority))
    for members in (np.flatnonzero(group == one) for one in np.unique(group)):
        rank = rankdata(priority[members])
        found[members] = (2 * rank - len(members) - 1) / max(len(members) - 1, 1)
    return found


def _paper(graph: ComputationGraph, num_types: int) -> np.ndarray:
    """float64[O, 4 + num_types]."""
    most = int(graph.machine_type.max(initial=0))
    if most >= num_types:
        raise OptionError(f"{graph} has machine type {most}, the policy is for {num_types} types")
    demand = np.where(np.all(graph.demand == 1), 0, graph.demand)
    types = np.eye(num_types)[graph.machine_type]
    source, target = _paths(graph)
    return _over_largest(np.column_stack([graph.duration, demand, types, source, target]))


def _extended(graph: ComputationGraph) -> np.ndarray:
    """float64[O, 19]."""
    source, target = _paths(graph)
    length = max(source.max(initial=0), 1e-300)  # of the critical path; the guard is for 0 / 0
    slack = np.maximum(length - (source + target - graph.duration), 0) / length
    share, load = _shares_and_loads(graph)
    members = np.bincount(graph.machine_type, minlength=len(load))
    before, after = graph.op_pairs.T
    absolute = [
        *(graph.duration, source, target, levels(graph) + 1, levels_to_sinks(graph) + 1),
        *(np.bincount(ops, minlength=graph.num_ops) for ops in (after, before)),
        *(load[graph.machine_type], members[graph.machine_type]),
    ]
    bound_by_paths = np.full(graph.num_ops, length / max(length, load.max(initial=0)))
    orders = [
        *(places(by) for by in (target, levels_to_sinks(graph), -graph.duration, -slack, share)),
        *(places(by, graph.machine_type) for by in (target, graph.duration - source)),
    ]
    relative = _over_largest(np.column_stack(absolute))
    return np.column_stack([relative, share, slack, bound_by_paths, *orders])


def _paths(graph: ComputationGraph) -> tuple[np.ndarray, np.ndarray]:
    """float64[O] each: durations of the longest path from the source, and of that to the target."""
    return top_levels(graph) + graph.duration, bottom_levels(graph)


def _shares_and_loads(graph: ComputationGraph) -> tuple[np.ndarray, np.ndarray]:
    """(float64[O], demand over capacity; float64[M], loads of the machine types)."""
    if graph.capacity is None:
        raise OptionError(f"{graph} has no capacities, which the extended feature set needs")
    share = graph.demand / np.maximum(graph.capacity, 1)[graph.machine_type]
    work = graph.duration * share
    return share, np.bincount(graph.machine_type, work, minlength=len(graph.capacity))


def _over_largest(values: np.ndarray) -> np.ndarray:
    """float64[O, F]: each column, of numbers of at least 0, over its maximum."""
    largest = values.max(axis=0, initial=0)
    return values / np.where(largest > 0, largest, 1)

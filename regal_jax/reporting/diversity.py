"""How different the schedules of one graph are: section 5 and E.2 of gflownet_robust_scheduling.

Each number is the mean over all pairs of schedules; of one schedule, it is 0.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.spatial import distance

from regal_jax.environments.construction.chains import previous_ops
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import OptionError, ScheduleError
from regal_jax.graphs.computation_graph import ComputationGraph

PAPER_WEIGHT = 10.0
"""What ``one_hot_distance`` multiplies one-hot placements with: see there."""

_BLOCK = 256
"""Schedules that are compared with all the others at a time, which bounds memory."""


class Diversity(NamedTuple):
    """Mean distances between two of the schedules.

    Attributes:
      ged: graph-edit distance of the chain graphs, in percent. A chain graph has an edge from each
        op to the next one on its device; with the sets of edges A and B, the distance is
        100 * |A xor B| / (|A| + |B|), so 0 if they are the same and 100 if they have no edge in
        common; 0 for two without edges. "The total number of edges" that the paper divides by is
        read as that of both. Names of devices don't matter.
      d_inv: L2 norm of the difference of the start times. The paper doesn't give its unit; ours is
        the graph's mean op duration (for graphs without any, us).
      d_sen: the same, with the placement concatenated as in ``one_hot_distance``. Names of devices
        matter, as in the paper: schedules that are equal but for them are apart.
    """

    ged: float
    d_inv: float
    d_sen: float


def one_hot_distance(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """float64[A, B]: squared distances of placements int32[A, O] and int32[B, O], written one-hot
    times PAPER_WEIGHT.

    Deviation: what fits the paper's numbers, though it doesn't say so. Independent random
    placements on four devices differ in 3/4 of the ops, so these are 10 * sqrt(2 * 3/4 * ops)
    apart: 86.6 for 50 ops, 108.2 for 78. The paper's GFlowNet has sqrt(d_sen**2 - d_inv**2) = 86.8
    in table 2 (50 ops) and 108.1 in table 1 (about 78 ops). Device numbers, the plain reading, are
    11 apart for 50 ops; they would fit with a factor of 7.75.
    """
    num_ops = first.shape[1]
    moved = distance.cdist(first, second, "hamming") * num_ops
    return 2.0 * PAPER_WEIGHT**2 * moved


def diversity(graph: ComputationGraph, schedules: Sequence[Schedule]) -> Diversity:
    """How different schedules of a graph are.

    Args:
      graph: the graph.
      schedules: of it, with start times; at least one.

    Raises:
      OptionError: without schedules. ScheduleError: for one without start times, or of a graph with
        another number of ops.
    """
    if not schedules:
        raise OptionError("diversity needs at least one schedule")
    for schedule in schedules:
        _check(graph, schedule)
    if len(schedules) == 1:
        return Diversity(0.0, 0.0, 0.0)
    placement = np.stack([schedule.placement for schedule in schedules])
    sequence = np.stack([schedule.ops_in_order() for schedule in schedules])
    start = np.stack([np.asarray(schedule.start) for schedule in schedules])
    unit = graph.duration.sum() / max(graph.num_ops, 1) or 1.0
    ged = _edit_distance(placement, sequence)
    d_inv, d_sen = _start_distances(start / unit, placement)
    return Diversity(ged, d_inv, d_sen)


def _check(graph: ComputationGraph, schedule: Schedule) -> None:
    if schedule.start is None:
        raise ScheduleError("diversity needs schedules with start times")
    if len(schedule.placement) != graph.num_ops:
        raise ScheduleError(
            f"a schedule of {len(schedule.placement)} ops for a graph of {graph.num_ops}"
        )


def _edit_distance(placement: np.ndarray, sequence: np.ndarray) -> float:
    """Mean graph-edit distance [percent] of schedules int[N, O], in time linear in N.

    A chain graph has as many edges as ops less the devices in use, so schedules fall into few
    groups of one number of edges. Over all pairs from two groups the divisor is the same, and the
    common edges add up to the products of how many have each edge in the one and in the other.
    """
    previous = previous_ops(placement, sequence)
    is_edge = previous >= 0
    edges = previous * np.int64(previous.shape[1]) + np.arange(previous.shape[1])
    sizes, group = np.unique(is_edge.sum(axis=1), return_inverse=True)
    owner = np.broadcast_to(group[:, None], edges.shape)[is_edge]
    names, edge = np.unique(edges[is_edge], return_inverse=True)
    shape = len(sizes), len(names)
    having = sparse.csr_array((np.ones(len(edge)), (owner, edge)), shape=shape)
    members = np.bincount(group)
    # Both counts leave out the pairs of a schedule with itself.
    pairs = np.outer(members, members) - np.diag(members)
    common = (having @ having.T).toarray() - np.diag(members * sizes)
    total = sizes[:, None] + sizes
    apart = np.where(total > 0, pairs - 2.0 * common / np.maximum(total, 1), 0.0)
    return float(100.0 * apart.sum() / pairs.sum())


def _start_distances(start: np.ndarray, placement: np.ndarray) -> tuple[float, float]:
    """Mean (d_inv, d_sen) of start times float64[N, O] and placements int32[N, O]."""
    count, d_inv, d_sen = len(start), 0.0, 0.0
    for begin in range(0, count, _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        # Differences are squared and added as they are: the quicker products of matrices would not
        # make it exactly 0 for equal schedules.
        times = distance.cdist(start[rows], start, "sqeuclidean")
        both = times + one_hot_distance(placement[rows], placement)
        d_inv += float(np.sqrt(times).sum())
        d_sen += float(np.sqrt(both).sum())
    pairs = count * (count - 1)
    return d_inv / pairs, d_sen / pairs

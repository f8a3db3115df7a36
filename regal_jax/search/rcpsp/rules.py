"""Priority rules for machine problems: which ready op starts first.

A rule gives each op of a graph with machine types, demands and capacities a priority; list
scheduling starts ready ops by decreasing priority and breaks ties by the lower op index. All rules
here are static: a priority does not change while a schedule is made. Where job shops and projects
have their own name for a rule, both are given.

Sources: Haupt, "A survey of priority rule-based scheduling", OR Spektrum 11, 1989 (job shops);
Kolisch, "Efficient priority rules for the resource-constrained project scheduling problem", Journal
of Operations Management 14, 1996; Grandl et al., "Multi-resource packing for cluster schedulers",
SIGCOMM 2014 (Tetris).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.errors import OptionError
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.native import bits
from regal_jax.native.compilation import jit_with_arrays

Rule = Callable[[ComputationGraph], np.ndarray]
"""graph -> float64[O], higher first."""


def critical_path(graph: ComputationGraph) -> np.ndarray:
    """The longest path of durations from the op to a sink, both included (us).

    In a job shop this is "most work remaining" (MWKR), in a project "latest start time" (LST): the
    length of the graph's critical path less this number is when the op has to start.
    """
    return precedence.bottom_levels(graph)


def mopnr(graph: ComputationGraph) -> np.ndarray:
    """Most operations remaining: ops on the path to a sink that has most of them, both included."""
    return precedence.levels_to_sinks(graph) + 1.0


def spt(graph: ComputationGraph) -> np.ndarray:
    """Shortest processing time, or shortest job first (SJF): less the duration.

    The one-shot priority sampling paper has the inverse of the duration, which is the same order,
    but for an op of no duration undefined.
    """
    return -graph.duration


def lpt(graph: ComputationGraph) -> np.ndarray:
    """Longest processing time: the duration (us)."""
    return graph.duration.copy()


def tetris(graph: ComputationGraph) -> np.ndarray:
    """Largest share of its machine type's capacity first.

    Tetris ranks ready ops by the product of what they need and what is free, at every decision
    time anew. With one resource an op, what is free is a common factor of all ready ops of a type,
    and ops of different types don't compete: the order is that of the share alone. (With nothing
    free all products are 0, but then only ops without demand fit, in whatever order.)
    """
    return graph.demand / np.maximum(_capacity(graph)[graph.machine_type], 1)


def most_work_remaining(graph: ComputationGraph) -> np.ndarray:
    """Durations of the op and of all its descendants, on whichever path (us)."""
    descendants = precedence.closure(graph)
    return graph.duration + _sums_over_members(descendants.view(np.int64), graph.duration)


def most_successors(graph: ComputationGraph) -> np.ndarray:
    """Most total successors (MTS): the number of descendants."""
    descendants = precedence.closure(graph)
    return _sums_over_members(descendants.view(np.int64), np.ones(graph.num_ops))


def latest_finish(graph: ComputationGraph) -> np.ndarray:
    """Latest finish time (LFT), earliest first: the longest path after the op, its own duration
    left out (us)."""
    return precedence.bottom_levels(graph) - graph.duration


def least_slack(graph: ComputationGraph) -> np.ndarray:
    """Minimum slack (MSLK), at the earliest start: the longest path through the op (us).

    The length of the critical path less this number is the slack. Deviation: Kolisch's MSLK counts
    from when the op could start in the partial schedule.
    """
    return precedence.top_levels(graph) + precedence.bottom_levels(graph)


def rank_positional_weight(graph: ComputationGraph) -> np.ndarray:
    """Greatest rank positional weight (GRPW): the op's duration and its direct successors' (us)."""
    before, after = graph.op_pairs.T
    following = np.bincount(before, graph.duration[after], minlength=graph.num_ops)
    return graph.duration + following


def greatest_resource_demand(graph: ComputationGraph) -> np.ndarray:
    """Greatest resource demand (GRD, Davis and Patterson 1975): duration times share of the
    capacity (us)."""
    return graph.duration * tetris(graph)


RULES: dict[str, Rule] = {
    "critical_path": critical_path,
    "mopnr": mopnr,
    "spt": spt,
    "lpt": lpt,
    "tetris": tetris,
    "most_work_remaining": most_work_remaining,
    "most_successors": most_successors,
    "latest_finish": latest_finish,
    "least_slack": least_slack,
    "rank_positional_weight": rank_positional_weight,
    "greatest_resource_demand": greatest_resource_demand,
}


class Shortest(NamedTuple):
    """The rule whose schedule is shortest: its name, its genes float32[O], and that makespan."""

    name: str
    genes: np.ndarray
    makespan: float


def shortest(problem: MachineProblem) -> Shortest:
    """The rule whose schedule is shortest, the first of equals, in the problem's
    generation."""
    priorities = np.stack([genes(rule(problem.ranked_graph)) for rule in RULES.values()])
    makespans = problem.makespans(priorities)
    best = int(np.argmin(makespans))
    return Shortest(list(RULES)[best], priorities[best], float(makespans[best]))


def genes(priority: np.ndarray) -> np.ndarray:
    """float32[O] in [0, 1): the same order and the same ties, whatever the precision of priorities.

    Equal priorities have one rank. Ranks of up to 2**23 ops are distinct as float32.
    """
    rank = np.unique(priority, return_inverse=True)[1].reshape(-1)
    return (rank / max(len(priority), 1)).astype(np.float32)


def ties_last(priority: np.ndarray) -> np.ndarray:
    """float64[O]: ranks by priority in which the higher op index wins ties.

    Published heuristics for TPC-H (the code of PPO-BiHyb, Wang et al. 2021) break ties so.
    """
    rank = np.empty(len(priority))
    rank[np.lexsort((np.arange(len(priority)), priority))] = np.arange(len(priority))
    return rank


def _capacity(graph: ComputationGraph) -> np.ndarray:
    if graph.capacity is None:
        raise OptionError("this rule needs a graph with capacities of its machine types")
    return graph.capacity


@jit_with_arrays
def _sums_over_members(sets: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """float64[O]: the sum of ``weight`` over each bitset, by increasing index."""
    sums = np.zeros(len(sets))
    for row in range(len(sets)):
        for word in range(sets.shape[1]):
            members = sets[row, word]
            while members != 0:
                sums[row] += weight[64 * word + bits.lowest(members)]
                members &= members - 1
    return sums

"""Justification: a schedule is pushed to the right, then to the left, and often gets shorter.

Valls, Ballestin, Quintanilla, "Justification and RCPSP: a technique that pays", European Journal of
Operational Research 165, 2005. Also known as forward-backward improvement.
"""

from typing import NamedTuple

import numpy as np

from regal_jax.environments.rcpsp.problem import MachineProblem, priorities
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.rewrites.transforms import reverse


class BothWays(NamedTuple):
    """The serial generation of a graph's schedules, and of those of its reverse."""

    forwards: MachineProblem
    backwards: MachineProblem


def both_ways(graph: ComputationGraph) -> BothWays:
    """Raises GraphError or OptionError as MachineProblem does."""
    return BothWays(
        MachineProblem(graph, generation="serial"),
        MachineProblem(reverse(graph), generation="serial"),
    )


def retime(problem: MachineProblem, start: np.ndarray) -> np.ndarray:
    """float64[O], us: each op as early as it can, in the order of given starts; none gets later.

    Args:
      problem: with serial generation.
      start: float64[O], a valid schedule. It may be one of other durations, such as rounded ones:
        only the order of starts counts.
    """
    return problem.starts(priorities(start[None]))[0]


def justify(both: BothWays, start: np.ndarray) -> np.ndarray:
    """float64[B, O], us: double justification of valid schedules float64[B, O]; none gets longer.

    To the right: by decreasing end, each op as late as it can. Then to the left: by increasing
    start, each as early as it can. This generates two schedules for each.
    """
    duration = both.forwards.graph.duration
    # Time runs backwards here, from whenever: only the order of starts (reversed, ends) counts.
    reversed_start = both.backwards.starts(priorities(-(start + duration)))
    left = both.forwards.starts(priorities(-(reversed_start + duration)))
    # Durations summed in another order may differ in their last bits.
    longer = makespans(both, left) > makespans(both, start)
    return np.where(longer[:, None], start, left)


def makespans(both: BothWays, start: np.ndarray) -> np.ndarray:
    """float64[B], us, of starts float64[B, O]."""
    return np.max(start + both.forwards.graph.duration, axis=1)

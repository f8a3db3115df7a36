"""List schedules for a sweep of prices of transfers: candidates for hardware whose transfer times
aren't known (ours).

A proxy on which transfers are free can't tell schedules that cross devices from those that don't.
So list heuristics are asked for schedules of platforms on which they cost something: an assumed
latency and an assumed time per byte, each from a few levels, in all combinations.
"""

import math
import time
from collections.abc import Callable, Sequence

from regal_jax.environments.execution import prices
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Schedule
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.list_scheduling.heuristics import etf, heft
from regal_jax.search.local_search import search as local_search

Maker = Callable[[PlacementProblem], Schedule]


def _of_list(heuristic: Callable[[ComputationGraph, Platform], Schedule]) -> Maker:
    return lambda problem: heuristic(problem.graph, problem.platform)


HEURISTICS: Sequence[Maker] = (_of_list(heft), _of_list(etf))


def schedules(
    graph: ComputationGraph,
    platform: Platform,
    number: int,
    deadline: float = math.inf,
    *,
    makers: Sequence[Maker] = HEURISTICS,
    moves: int = 0,
    seed: int = 0,
) -> list[Schedule]:
    """The best schedule at each price, then the second best, and so on; each time cheap prices
    first. Some may be equal.

    Args:
      graph, platform: the problem, whose own transfer times come on top of the prices.
      number: of prices at most, all pairs of its square root's levels.
      deadline: ``time.perf_counter()`` from which no more are made.
      makers: what makes a schedule at each price.
      moves: of local search, that improve on the best one at each price.
      seed: of these.
    """
    found: list[list[Schedule]] = []
    for price in prices.sweep(number):
        there = PlacementProblem.on(graph, prices.at_price(graph, platform, price), "makespan")
        made = [there.costed(maker(there)) for maker in makers]
        made.sort(key=lambda schedule: schedule.makespan)
        found.append([local_search.improve(there, made[0], moves, seed), *made[1:]])
        if time.perf_counter() >= deadline:
            break
    return [schedule for places in zip(*found, strict=True) for schedule in places]

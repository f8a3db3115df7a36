"""List schedules for a sweep of prices of transfers: candidates for hardware whose transfer times
aren't known (ours).

A proxy on which transfers are free can't tell schedules that cross devices from those that don't.
So list heuristics are asked for schedules of platforms on which they cost something: an assumed
latency and an assumed time per byte, each from a few levels, in all combinations.
"""

import math
import time

from regal_jax.environments.execution import prices
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Schedule
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.list_scheduling.heuristics import etf, heft
from regal_jax.search.local_search import search as local_search

HEURISTICS = (heft, etf)
"""Of 98 candidates for 17 real graphs on four devices, the best on the targets of
``experiments/targets`` has speedups of 2.60 (noisy), 1.84 (bandwidth) and 2.16 (latency) on average
with both at seven levels, and 2.58, 1.82, 2.12 with ``heft`` alone at ten."""


def schedules(
    graph: ComputationGraph,
    platform: Platform,
    count: int,
    deadline: float = math.inf,
    *,
    moves: int = 0,
    seed: int = 0,
) -> list[Schedule]:
    """At most ``count`` schedules, at least one, cheap prices first; some may be equal.

    Args:
      graph, platform: the problem, whose own transfer times come on top of the prices.
      count: how many are wanted; prices have sqrt(count / 2) levels.
      deadline: ``time.perf_counter()`` from which no more are made.
      moves: of local search, that improve on the better one at each price.
      seed: of these.
    """
    found: list[Schedule] = []
    for price in prices.sweep(count // len(HEURISTICS)):
        there = PlacementProblem.on(graph, prices.at_price(graph, platform, price), "makespan")
        made = [there.costed(heuristic(graph, there.platform)) for heuristic in HEURISTICS]
        made.sort(key=lambda schedule: schedule.makespan)
        found += [local_search.improve(there, made[0], moves, seed), *made[1:]]
        if time.perf_counter() >= deadline:
            break
    return found[:count]

"""List schedules for a sweep of prices of transfers: candidates for hardware whose transfer times
aren't known (ours).

A proxy on which transfers are free can't tell schedules that cross devices from those that don't.
So list heuristics are asked for schedules of platforms on which they cost something: an assumed
latency and an assumed time per byte, each from a few levels, in all combinations.
"""

import dataclasses
import math
import time

import numpy as np

from regal_jax.environments.execution import targets
from regal_jax.environments.execution.targets import TargetModel
from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Schedule
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.list_scheduling.heuristics import etf, heft

CHEAPEST, DEAREST = 0.1, 30.0
"""Prices but for 0, in mean durations of the ops: of any tensor, and of one of mean size."""

HEURISTICS = (heft, etf)
"""Of 98 candidates for 17 real graphs on four devices, the best on the targets of
``experiments/targets`` has speedups of 2.60 (noisy), 1.84 (bandwidth) and 2.16 (latency) on average
with both at seven levels, and 2.58, 1.82, 2.12 with ``heft`` alone at ten."""


def schedules(
    graph: ComputationGraph, platform: Platform, count: int, deadline: float = math.inf
) -> list[Schedule]:
    """At most ``count`` schedules, at least one, cheap prices first; some may be equal.

    Args:
      graph, platform: the problem, whose own transfer times come on top of the prices.
      count: how many are wanted; prices have sqrt(count / 2) levels.
      deadline: ``time.perf_counter()`` from which no more are made.
    """
    found: list[Schedule] = []
    for latency, per_byte in _prices(count):
        model = TargetModel(latency_share=latency, per_byte_share=per_byte)
        more, more_per_byte = targets.transfer_times(graph, model)
        there = dataclasses.replace(
            platform,
            latency=platform.latency + more,
            per_byte=platform.per_byte + more_per_byte,
        )
        found += [heuristic(graph, there) for heuristic in HEURISTICS]
        if time.perf_counter() >= deadline:
            break
    return found[:count]


def _prices(count: int) -> list[tuple[float, float]]:
    """Pairs of a latency and a price of mean-sized tensors, the lowest sums first."""
    number = math.isqrt(max(count // len(HEURISTICS), 1)) - 1
    dear = np.geomspace(CHEAPEST, DEAREST, number).tolist()
    levels = [0.0, *(dear if number != 1 else [math.sqrt(CHEAPEST * DEAREST)])]
    return sorted(((first, second) for first in levels for second in levels), key=sum)

"""Assumed prices of transfers, for hardware whose transfer times aren't known (ours).

A price is a pair of shares of the graph's mean op duration (``TargetModel``): what any tensor that
crosses devices takes, and what one of mean size takes more.
"""

import dataclasses
import math

import numpy as np

from regal_jax.environments.execution import targets
from regal_jax.environments.execution.targets import TargetModel
from regal_jax.environments.platform import Platform
from regal_jax.graphs.computation_graph import ComputationGraph

CHEAPEST, DEAREST = 0.1, 30.0
"""Of either share, but for 0."""

Price = tuple[float, float]


def at_price(graph: ComputationGraph, platform: Platform, price: Price) -> Platform:
    """A platform on which transfers take so much more."""
    model = TargetModel(latency_share=price[0], per_byte_share=price[1])
    latency, per_byte = targets.transfer_times(graph, model)
    return dataclasses.replace(
        platform, latency=platform.latency + latency, per_byte=platform.per_byte + per_byte
    )


def sweep(count: int) -> list[Price]:
    """At most ``count`` prices, at least one: all pairs of a few levels, the lowest sums first."""
    number = math.isqrt(max(count, 1)) - 1
    dear = np.geomspace(CHEAPEST, DEAREST, number).tolist()
    levels = [0.0, *(dear if number != 1 else [math.sqrt(CHEAPEST * DEAREST)])]
    return sorted(((first, second) for first in levels for second in levels), key=sum)

"""Do searches rediscover the published schedules of pipeline training?

They are told the graph of a training step of p stages and m microbatches, p devices and how much
memory a published schedule takes on the fullest of them; not which stage goes where, nor any order.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import regal_jax as rj
from regal_jax.datasets.pipelines import pipeline
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.search.placements import pipelines

ACTIVATION, KEPT, WEIGHTS = 100, 50, 1000
"""Bytes of M_B, M_W and a stage's weights. With weights of no bytes every device could run whole
microbatches, and no device would wait."""
SAME = 1e-9

PUBLISHED: Mapping[str, Callable] = MappingProxyType(
    {
        "gpipe": pipelines.gpipe,
        "1f1b": pipelines.one_f_one_b,
        "zb-h1": pipelines.zero_bubble_h1,
        "zb-h2": pipelines.zero_bubble_h2,
    }
)


class Published(NamedTuple):
    """A published schedule of a pipeline: makespan [us], and bytes of the fullest device."""

    makespan: float
    peak_memory: int


def training_step(stages: int, microbatches: int) -> rj.ComputationGraph:
    """F, B and W of 1 us each; transfers are free."""
    return pipeline(
        stages, microbatches, activation_bytes=ACTIVATION, kept_bytes=KEPT, weight_bytes=WEIGHTS
    )


def published(stages: int, microbatches: int) -> dict[str, Published]:
    """What each published schedule takes on the graph of ``training_step``."""
    graph = training_step(stages, microbatches)
    problem = PlacementProblem.on(graph, Platform(stages), "makespan")
    found = {}
    for name, orders_of in PUBLISHED.items():
        orders = orders_of(stages, microbatches)
        schedule = pipelines.pipeline_schedule(graph, orders)
        costed = problem.costed(schedule)
        found[name] = Published(float(costed.makespan or 0.0), max(costed.peak_memory))
    return found


def options(stages: int, capacity: int, method: str, *, evaluations: int, seed: int) -> rj.Options:
    """What is asked of a method: a fast schedule of the step within a memory capacity, or beyond it
    if it finds none."""
    return rj.Options(
        objective="makespan",
        num_devices=stages,
        method=method,
        evaluations=evaluations,
        seed=seed,
        memory_capacity=capacity,
    )


def verdict(makespan: float, peak: int, known: Mapping[str, Published], capacity: int) -> str:
    """Which published schedules, of those within the capacity, a schedule is as fast as."""
    if peak > capacity:
        return "does not fit"
    fitting = {name: each for name, each in known.items() if each.peak_memory <= capacity}
    reached = [name for name, each in fitting.items() if makespan <= each.makespan * (1 + SAME)]
    if not reached:
        return "slower than all"
    fastest = min(each.makespan for each in fitting.values())
    better = "faster than " if makespan < fastest * (1 - SAME) else "as fast as "
    return better + ", ".join(reached)


def answer(methods: Sequence[str], verdicts: Mapping[str, Sequence[str]], name: str) -> str:
    """One line: which methods reached a published schedule at least once."""
    reached = [m for m in methods if any(name in verdict for verdict in verdicts[m])]
    return f"{name} is reached by {', '.join(reached) if reached else 'no method'}"

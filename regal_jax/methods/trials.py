"""Trials on a target one after another, each chosen by what those before told (ours).

Of gflownet_robust_scheduling, 2.2, only the measurements are kept: a few of a sampler's schedules
are tried, a model of the machine is fitted to what they took (``calibration``), and the next are
the best by machines drawn from what the model leaves open, found by local search from the best
schedules so far (Thompson sampling; Thompson 1933).
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from regal_jax.environments.execution.targets import Target
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.schedule import Schedule
from regal_jax.search.local_search import search as local_search
from regal_jax.search.placements import calibration, candidates

FIRST = 0.3
"""Of the trials, those of the sampler's schedules: evenly over their ranks, so over prices, too."""

ROUND = 10
"""Trials between two fits."""

MOVES = 2000
"""Of local search for each trial."""

PARENTS = 5
"""Of the best schedules so far, from which local search begins in turn."""

ATTEMPTS = 3
"""At a schedule that hasn't been tried, for each trial."""


class Tried(NamedTuple):
    """A schedule, with the problem's costs, and the us that it took on the target."""

    schedule: Schedule
    time: float


def run(
    problem: PlacementProblem,
    ranked: Sequence[Schedule],
    time_of: Target,
    trials: int,
    seed: int,
    on_trial: Callable[[int, float], None] = lambda trials, time: None,
    deadline: float = math.inf,
) -> list[Tried]:
    """What was tried, in order.

    Args:
      problem: what schedules must be of.
      ranked: a sampler's schedules, best first; at least one, none equal but for names of devices.
      time_of: schedule -> us.
      trials: how many, at most: fewer if no other schedules are found.
      seed: of everything random.
      on_trial: called with (trials so far, least us so far).
      deadline: ``time.perf_counter()`` from which no more are begun, after the first.
    """
    tried: list[Tried] = []

    def attempt(schedule: Schedule) -> None:
        tried.append(Tried(schedule, time_of(schedule)))
        on_trial(len(tried), min(one.time for one in tried))

    first = max(round(FIRST * trials), 1)
    chosen = np.linspace(0, len(ranked) - 1, min(first, len(ranked))).astype(int)
    rng, new = np.random.default_rng(seed), [ranked[index] for index in chosen]
    while new:
        for schedule in new:
            attempt(schedule)
            if time.perf_counter() >= deadline:
                return tried
        left = trials - len(tried)
        new = _next(problem, tried, left, rng) if left > 0 else []
    return tried


def _next(
    problem: PlacementProblem, tried: Sequence[Tried], most: int, rng: np.random.Generator
) -> list[Schedule]:
    """Schedules to try next, none tried before: the best of the likeliest machine, then of others
    that are likely."""
    schedules, times = zip(*tried, strict=True)
    parents = [one.schedule for one in sorted(tried, key=lambda one: one.time)[:PARENTS]]
    measured = candidates.from_schedules(schedules)
    fitted = calibration.fit(problem, measured, times)
    known = {row.tobytes() for row in candidates.chains(measured)}
    found: list[Schedule] = []
    for attempt in range(ATTEMPTS * min(ROUND, most)):
        machine = fitted.draw(rng) if attempt else fitted.machine
        there = calibration.on_machine(problem, machine)
        parent = there.costed(parents[attempt % len(parents)])
        schedule = local_search.improve(there, parent, MOVES, int(rng.integers(2**31)))
        schedule = problem.costed(schedule)
        if problem.fits(schedule) and (name := _name(schedule)) not in known:
            known.add(name)
            found.append(schedule)
        if len(found) == min(ROUND, most):
            break
    return found


def _name(schedule: Schedule) -> bytes:
    """Equal for schedules that are equal but for the names of devices."""
    return candidates.chains(candidates.from_schedules([schedule])).tobytes()

"""The search that ``policies.regal.moves`` steers: changed elites, from the cheap schedules on."""

from collections.abc import Callable
from typing import Any

import jax

from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import OptionError
from regal_jax.options import Budget, Result
from regal_jax.policies.regal import moves
from regal_jax.policies.regal.moves import Moves
from regal_jax.policies.regal.schedule_features import ScheduleInputs, graph_part, schedule_inputs
from regal_jax.search import base
from regal_jax.search.base import Algorithm
from regal_jax.search.evolution import elite_mutation, looks
from regal_jax.search.evolution.elite_mutation import Change, EliteConfig
from regal_jax.search.placements.cheap import cheap_candidates

KNOWN = 10
"""Of the cheap schedules, how many of the best a search begins with."""

LOOKS = 4
"""How often the best schedule so far is looked at."""

CONFIG = EliteConfig()

LEAST = KNOWN + CONFIG.newcomers
"""Evaluations that a search takes at least after ``begin``."""

Propose = Callable[[ScheduleInputs], Moves]


def begin(problem: PlacementProblem, budget: Budget, *, least: int) -> Result:
    """The best of the cheap schedules, with the best ``KNOWN`` as the population.

    Raises OptionError for a budget that leaves fewer than ``least`` evaluations.
    """
    found = cheap_candidates(problem, seed=budget.seed)
    if budget.evaluations < len(found) + least:
        raise OptionError(
            f"needs at least {len(found) + least} evaluations here, of which {len(found)} are for"
            f" simple schedules, got {budget.evaluations}"
        )
    start = base.best_of_schedules(problem, budget, found)
    assert start.population is not None
    return start._replace(population=start.population[:KNOWN])


def search(
    problem: PlacementProblem,
    budget: Budget,
    start: Result,
    propose: Propose,
    *,
    times: int = LOOKS,
) -> Result:
    """Changed elites on from what ``begin`` found, by what is proposed at each look.

    OptionError if less than ``LEAST`` is left of the budget.
    """
    part = graph_part(problem.graph)

    def steer(schedule: Schedule, left: float) -> tuple[Moves, ScheduleInputs]:
        inputs = schedule_inputs(problem, schedule, part, left)
        return propose(inputs), inputs

    return looks.search(
        problem,
        budget.after(start),
        jax.random.key(budget.seed),
        start,
        algorithm=_algorithm,
        steer=steer,
        looks=times,
    )


def _algorithm(known: int) -> Algorithm:
    return elite_mutation.algorithm(CONFIG, known, _change)


def _change(params: Any) -> Change:
    return moves.mutate(*params)

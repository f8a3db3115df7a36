"""A search in looks: before each, something looks at the best schedule so far, and steers."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.schedule import Schedule
from regal_jax.options import Budget, Result, best_of
from regal_jax.search import base
from regal_jax.search.base import Algorithm

Steer = Callable[[Schedule, float], Any]
"""(best schedule so far, share of the budget that is left) -> the algorithm's ``params``."""


def search(
    problem: PlacementProblem,
    budget: Budget,
    key: Any,
    start: Result,
    *,
    algorithm: Callable[[int], Algorithm],
    steer: Steer,
    looks: int,
) -> Result:
    """The best after ``looks`` searches of equal budgets, each on from what the last ended with.

    Args:
      problem, budget, key: what to search, for how long in all, its random key.
      start: what is known: the best schedule, and a ``population`` to begin with.
      algorithm: for so many known chromosomes.
      steer: called before each look.
      looks: searches; fewer, if the budget has no two generations for each.

    Raises:
      OptionError: if the budget is below what the algorithm begins with.
    """
    assert start.population is not None
    found, known, spent = start, start.population, 0
    first = algorithm(len(known))
    looks = max(1, min(looks, budget.evaluations // (first.initial + first.newcomers)))
    for look in range(looks):
        ours = algorithm(len(known))
        left = budget.evaluations - spent
        params = steer(found.schedule, left / budget.evaluations)
        part = budget.after(found._replace(evaluations=spent))
        part = part._replace(evaluations=_part(left, looks - look, ours))
        look_key = jax.random.fold_in(key, look)
        result = base.run(look_key, ours, problem, part, params=params, known=known)
        found, spent = best_of(found, result), spent + result.evaluations
        if budget.out_of_time:
            break
        known = _with_best(problem, found)
    return found


def _with_best(problem: PlacementProblem, found: Result) -> np.ndarray:
    """The last population with the best schedule, which may be older, in its last place."""
    assert found.population is not None
    return np.concatenate([found.population[:-1], problem.encode(found.schedule)[None]])


def _part(evaluations: int, looks: int, algorithm: Algorithm) -> int:
    """Of what is left, the evaluations of the next of so many looks: whole generations, so that all
    looks share their programs, but for the last."""
    if looks == 1:
        return evaluations
    generations = (evaluations // looks - algorithm.initial) // algorithm.newcomers
    return algorithm.initial + max(0, generations) * algorithm.newcomers

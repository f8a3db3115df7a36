"""``auto``: what a user gets who names no method."""

import numpy as np

from regal_jax.environments.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.methods import learned, refinement, simple
from regal_jax.methods.base import Budget, Found, best_of


def run_auto(problem: PlacementProblem, budget: Budget) -> Found:
    """For users: cheap schedules, then REGAL on half of what is left of the budget (where a policy
    fits the problem), then block moves from the best schedule so far with the rest.

    Never worse than any of the cheap schedules.
    """
    if budget.policy is not None:
        learned.load_policy(problem, budget.policy)  # one that was asked for must fit
    start = simple.cheapest(problem, budget)
    half = (budget.evaluations - start.evaluations) // 2
    try:
        found = best_of(
            start, learned.run_regal(problem, budget.after(start)._replace(evaluations=half))
        )
    except OptionError:
        found = start
    return _exactly_better(problem, start, refinement.climb(problem, budget, found))


def _exactly_better(problem: PlacementProblem, start: Found, found: Found) -> Found:
    """``found``, unless it is worse by what float32 rounds away: then with ``start``'s schedule."""
    costs = np.asarray(problem.fitness(np.stack([start.chromosome, found.chromosome])))
    return found if costs[1] <= costs[0] else found._replace(chromosome=start.chromosome)

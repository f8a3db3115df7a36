"""Searches that begin with the best cheap schedules, and the neighbours of known ones."""

import jax

from regal_jax import registry
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.methods import evolution, simple
from regal_jax.options import Budget, Result, best_of
from regal_jax.search import base
from regal_jax.search.evolution import elite_mutation
from regal_jax.search.evolution.brkga import BRKGAConfig
from regal_jax.search.evolution.elite_mutation import EliteConfig
from regal_jax.search.evolution.neighbours import layout, neighbours

KNOWN = 10
"""How many of the best known schedules a search begins with."""

_CONFIG = EliteConfig()

LEAST = KNOWN + _CONFIG.newcomers
"""Evaluations that changing elites takes at least."""


@registry.method("warm_brkga")
def run_warm_brkga(problem: PlacementProblem, budget: Budget) -> Result:
    """BRKGA with the best cheap schedules in its population: the control of what begins so, too."""
    start = _begin(problem, budget, least=BRKGAConfig().initial)
    key, known = jax.random.key(budget.seed), start.population
    return best_of(start, evolution.evolve(problem, budget.after(start), key, known=known))


@registry.method("elite_mutation")
def run_elite_mutation(problem: PlacementProblem, budget: Budget) -> Result:
    """Changed elites, from the best cheap schedules on."""
    return change_elites(problem, budget, _begin(problem, budget, least=LEAST))


def change_elites(problem: PlacementProblem, budget: Budget, start: Result) -> Result:
    """The best after changing a start's population for the rest of the budget, at least LEAST."""
    assert start.population is not None
    algorithm = elite_mutation.algorithm(_CONFIG, len(start.population), neighbours)
    found = base.run(
        jax.random.key(budget.seed),
        algorithm,
        problem,
        budget.after(start),
        params=layout(problem),
        known=start.population,
    )
    return best_of(start, found)


def _begin(problem: PlacementProblem, budget: Budget, *, least: int) -> Result:
    """The best of the cheap schedules, with the best ``KNOWN`` as the population.

    Raises OptionError for a budget that leaves fewer than ``least`` evaluations.
    """
    found = list(simple.cheap_candidates(problem, seed=budget.seed))
    if budget.evaluations < len(found) + least:
        raise OptionError(
            f"needs at least {len(found) + least} evaluations here, of which {len(found)} are for"
            f" simple schedules, got {budget.evaluations}"
        )
    start = base.best_of_schedules(problem, budget, found)
    assert start.population is not None
    return start._replace(population=start.population[:KNOWN])

"""Genetic and random searches behind ``optimize``, for every problem that has chromosomes."""

import functools
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

from regal_jax import registry
from regal_jax.environments.base import Problem
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.options import Budget, Result
from regal_jax.search import base
from regal_jax.search.evolution import brkga, random_search
from regal_jax.search.evolution.brkga import BRKGAConfig, BRKGAParams, Mutants

PAPER = "Goncalves and Resende 2011; regal_transfer_learning, 3.2"
RANDOM_PRIORITIES = 256
"""Of random search on machine types, as many as one-shot priority sampling has samples."""


@registry.method("brkga", problems=("placement", "rcpsp"), paper=PAPER)
def run_brkga(problem: Problem, budget: Budget) -> Result:
    """BRKGA as published: uniform mutants, population 100, 10 elites, 80 children, bias 0.7."""
    return evolve(problem, budget, jax.random.key(budget.seed))


@registry.method("tuned_brkga", paper="regal_transfer_learning, 4.2")
def run_tuned_brkga(problem: PlacementProblem, budget: Budget) -> Result:
    """BRKGA with the parameters of the best point of the grid of section 4.2."""
    config, alpha, beta = tuned_parameters(problem.objective)
    mutants = beta_mutants(alpha, beta, problem.spec.num_genes)
    return evolve(problem, budget, jax.random.key(budget.seed), config=config, mutants=mutants)


def tuned_parameters(objective: str) -> tuple[BRKGAConfig, float, float]:
    """What ``experiments/tuned_brkga.py`` found best for an objective, from the package: the
    population, and (alpha, beta) of its genes."""
    path = Path(__file__).parents[1] / "pretrained" / f"tuned_brkga_{objective}.json"
    if not path.exists():
        raise OptionError(f"no tuned parameters are shipped for {objective}")
    point = json.loads(path.read_text())["best"]
    alpha, beta = point.pop("alpha"), point.pop("beta")
    return BRKGAConfig(**point), alpha, beta


@registry.method("random_search")
@registry.method("random_search", problems=("rcpsp",), evaluations=RANDOM_PRIORITIES)
def run_random_search(problem: Problem, budget: Budget) -> Result:
    """The best of uniformly random chromosomes."""
    return sample(problem, budget, jax.random.key(budget.seed))


def evolve(
    problem: Problem,
    budget: Budget,
    key,
    *,
    config: BRKGAConfig | None = None,
    mutants: Mutants | None = None,
    params: BRKGAParams | None = None,
    known: np.ndarray | None = None,
) -> Result:
    """BRKGA on any problem.

    Args:
      problem, budget, key: what to search, for how long, and its random key.
      config: population parameters.
      mutants: where new chromosomes come from, uniform ones by default; params: what it reads.
      known: see ``search.base.run``.

    Raises:
      OptionError: if the budget is below the initial population.
    """
    config = config or BRKGAConfig()
    brkga.check_config(config, budget.evaluations)
    mutants = mutants or beta_mutants(1.0, 1.0, problem.spec.num_genes)
    params = params or BRKGAParams(config.elite_bias)
    algorithm = brkga.algorithm(config, mutants)
    return base.run(key, algorithm, problem, budget, params=params, known=known)


def sample(
    problem: Problem, budget: Budget, key, *, mutants: Mutants | None = None, params: Any = None
) -> Result:
    """The best of random samples. OptionError for a budget without any evaluation."""
    mutants = mutants or beta_mutants(1.0, 1.0, problem.spec.num_genes)
    algorithm = random_search.algorithm(mutants, budget.evaluations)
    return base.run(key, algorithm, problem, budget, params=params)


@functools.lru_cache(maxsize=256)
def beta_mutants(alpha: float, beta: float, num_genes: int) -> Mutants:
    """Every gene from Beta(alpha, beta), which reads no parameters; (1, 1) is uniform."""
    uniform = alpha == beta == 1.0
    make = brkga.uniform_mutants if uniform else functools.partial(brkga.beta_mutants, alpha, beta)
    return lambda _: make(num_genes)

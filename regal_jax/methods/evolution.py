"""Genetic and random searches behind ``optimize``, in a few calls of jitted parts."""

import functools
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.environments.placement import chromosome as placement_chromosome
from regal_jax.environments.placement import cost as placement_cost
from regal_jax.environments.placement.cost import CostModel
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.methods.base import Budget, Found
from regal_jax.policies.regal import beta_mutants
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.search.evolution import brkga, driver, random_search
from regal_jax.search.evolution.brkga import BRKGAConfig


class Learned(NamedTuple):
    """What a policy says of a padded graph; arrays.

    Attributes:
      actions: int32[O, A]. pinned, producer: see ``PolicyInputs``.
    """

    actions: Any
    pinned: Any
    producer: Any


class Distribution(NamedTuple):
    """Where chromosomes come from; hashable.

    Attributes:
      alpha, beta: of every gene's Beta distribution, where no policy chooses it.
      regal: the configuration of the policy that does.
    """

    alpha: float = 1.0
    beta: float = 1.0
    regal: RegalConfig | None = None


UNIFORM = Distribution()


class Evolution(NamedTuple):
    """What a genetic search found, and its last population.

    Attributes:
      population: float32[population, genes], in the problem's own layout.
    """

    found: Found
    population: np.ndarray


def run_brkga(problem: PlacementProblem, budget: Budget) -> Found:
    """BRKGA as published: uniform mutants, population 100, 10 elites, 80 children, bias 0.7."""
    return evolve(problem, budget, jax.random.key(budget.seed))


def run_tuned_brkga(problem: PlacementProblem, budget: Budget) -> Found:
    """BRKGA with the parameters of the best point of the grid of section 4.2."""
    config, distribution = tuned_parameters(problem.objective)
    return evolve(
        problem, budget, jax.random.key(budget.seed), config=config, distribution=distribution
    )


def tuned_parameters(objective: str) -> tuple[BRKGAConfig, Distribution]:
    """What ``experiments/tuned_brkga.py`` found best for an objective, from the package."""
    path = Path(__file__).parents[1] / "pretrained" / f"tuned_brkga_{objective}.json"
    if not path.exists():
        raise OptionError(f"no tuned parameters are shipped for {objective}")
    point = json.loads(path.read_text())["best"]
    beta = Distribution(point.pop("alpha"), point.pop("beta"))
    return BRKGAConfig(**point), beta


def run_random_search(problem: PlacementProblem, budget: Budget) -> Found:
    """The best of uniformly random chromosomes."""
    return sample(problem, budget, jax.random.key(budget.seed))


def evolve(problem: PlacementProblem, budget: Budget, key, **options: Any) -> Found:
    """The best that ``evolve_population`` finds, with the same arguments."""
    return evolve_population(problem, budget, key, **options).found


def evolve_population(
    problem: PlacementProblem,
    budget: Budget,
    key,
    *,
    config: BRKGAConfig | None = None,
    distribution: Distribution = UNIFORM,
    learned: Learned | None = None,
    population=None,
    to_beat: float = float("inf"),
) -> Evolution:
    """BRKGA, in the problem's padded shape.

    Args:
      problem, budget, key: what to search, for how long, and its random key.
      config: population parameters. distribution: of mutants and the initial population.
      learned: goes with a distribution that has a policy.
      population: float32[population, genes], padded, to begin with instead of samples.
      to_beat: a cost; see ``driver.run``.

    Raises:
      OptionError: if the budget is below the initial population.
    """
    config = config or BRKGAConfig()
    padded = problem.padded()
    part = _Part.of(padded, distribution, config)
    operands = (padded.operand(), learned, config.elite_bias)
    parts = driver.Parts(
        lambda key, generations: _init(key, operands, part, generations, population),
        lambda *progress: _advance(*progress, operands, part),
        lambda key, state, remainder: _finish(key, state, operands, part, remainder),
    )
    evolved = driver.run(
        key,
        parts,
        config,
        budget.evaluations,
        out_of_time=lambda: budget.out_of_time,
        on_progress=budget.on_progress,
        to_beat=to_beat,
    )
    best = found(problem, padded, evolved.chromosome, evolved.points, evolved.history)
    return Evolution(best, _unpadded(problem, padded, np.asarray(evolved.state.chromosomes)))


def sample(
    problem: PlacementProblem,
    budget: Budget,
    key,
    *,
    distribution: Distribution = UNIFORM,
    learned: Learned | None = None,
) -> Found:
    """The best of random samples. OptionError for a budget without any evaluation."""
    total = budget.evaluations
    random_search.check_budget(total)
    padded = problem.padded()
    part = _Part.of(padded, distribution, BRKGAConfig())
    operands = (padded.operand(), learned, BRKGAConfig().elite_bias)
    best = _sample_batch(jax.random.fold_in(key, 0), operands, part, min(_BATCH, total))
    history = jnp.full(-(-total // _BATCH), best.cost)
    batches, remainder = divmod(total, _BATCH)
    done = 1
    while done < batches and not budget.out_of_time:
        last = min(done + _CHUNK, batches)
        best, history = _sample_more(key, best, history, done, last, operands, part)
        done = last
        budget.on_progress(done * _BATCH, float(history[done - 1]))
    if batches and done == batches and remainder:
        last_key = jax.random.fold_in(key, batches * _BATCH)
        new = _sample_batch(last_key, operands, part, remainder)
        best = random_search.better(best, new)
        history, done = history.at[-1].set(best.cost), done + 1
    spent = min(done * _BATCH, total)
    points = random_search.history_evaluations(spent)
    budget.on_progress(spent, float(best.cost))
    return found(problem, padded, best.chromosome, points, np.asarray(history)[:done])


def found(problem, padded, chromosome, spent: list[int], history: np.ndarray) -> Found:
    """The result of a padded search, in the problem's own layout."""
    own = _unpadded(problem, padded, np.asarray(chromosome)[None])
    return Found(own[0], spent[-1], tuple(zip(spent, history.tolist(), strict=True)))


def _unpadded(problem, padded, chromosomes: np.ndarray) -> np.ndarray:
    sizes = (problem.graph.num_ops, problem.graph.num_tensors)
    shape = (padded.shape.ops, padded.shape.tensors)
    return placement_chromosome.unpad(chromosomes, sizes, shape, problem.num_devices)


_CHUNK = 20
"""Batches between two reports of progress."""
_BATCH = 100


class _Part(NamedTuple):
    """What a search is compiled for: static. The elite bias is an operand, not that of ``config``,
    so that configurations which differ in it alone share a compilation."""

    model: CostModel
    num_tensors: int
    distribution: Distribution
    config: BRKGAConfig

    @classmethod
    def of(cls, padded: PlacementProblem, distribution: Distribution, config: BRKGAConfig):
        same = config._replace(elite_bias=BRKGAConfig().elite_bias)
        return cls(padded.cost_model(), padded.shape.tensors, distribution, same)

    def functions(self, operands):
        """(fitness, sample_mutants, elite bias), from (graph, what is learned, elite bias)."""
        graph, learned, bias = operands
        model = self.model
        cost = functools.partial(placement_cost.costs, model, graph)
        regal = self.distribution.regal
        if regal is None:
            genes = placement_chromosome.num_genes(
                model.num_ops, self.num_tensors, model.num_devices
            )
            return cost, brkga.beta_mutants(*self.distribution[:2], genes), bias
        mutants = beta_mutants.learned_mutants(
            learned.actions, regal.space, self.num_tensors, learned.pinned
        )
        bias = beta_mutants.gene_elite_bias(learned.actions, regal.space, learned.producer, bias)
        return cost, mutants, bias


@functools.partial(jax.jit, static_argnames=("part", "generations"))
def _init(key, operands, part: _Part, generations: int, population):
    cost, mutants, _ = part.functions(operands)
    state = brkga.init(key, cost, mutants, warm_start=population, config=part.config)
    return state, jnp.full(generations + 1, jnp.min(state.costs))


@functools.partial(jax.jit, static_argnames="part")
def _advance(key, state, history, first, last, operands, part: _Part):
    cost, mutants, bias = part.functions(operands)
    return brkga.evolve(
        key, state, history, first, last, cost, mutants, elite_bias=bias, config=part.config
    )


@functools.partial(jax.jit, static_argnames=("part", "remainder"))
def _finish(key, state, operands, part: _Part, remainder: int):
    cost, mutants, bias = part.functions(operands)
    last = brkga.last_generation(part.config, remainder)
    return brkga.step(key, state, cost, mutants, elite_bias=bias, config=last)


@functools.partial(jax.jit, static_argnames=("part", "count"))
def _sample_batch(key, operands, part: _Part, count: int):
    cost, mutants, _ = part.functions(operands)
    return random_search.best_sample(key, cost, mutants, count)


@functools.partial(jax.jit, static_argnames="part")
def _sample_more(key, best, history, first, last, operands, part: _Part):
    cost, mutants, _ = part.functions(operands)
    return random_search.advance(key, best, history, first, last, cost, mutants, batch=_BATCH)

"""BRKGA: the biased random-key genetic algorithm (REGAL section 3.2).

A search for one problem; ``vmap`` it for many. What it minimises, and where new chromosomes come
from, are functions: REGAL is this search with a learned ``sample_mutants``.

Several populations may evolve side by side and exchange their best chromosomes now and then, as in
the multi-population BRKGA of Goncalves and Resende: the two best of all populations go into every
population that doesn't have them.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.environments.placement.chromosome import SampleMutants
from regal_jax.environments.placement.quantile_tables import beta_quantiles, sample_rows
from regal_jax.errors import OptionError
from regal_jax.search import base
from regal_jax.search.base import Algorithm, Trajectory

Fitness = Callable[[jax.Array], jax.Array]
"""float32[B, genes] -> float[B], a cost to minimise."""


class BRKGAConfig(NamedTuple):
    """Population parameters, pi, pi_e and pi_c of section 4.2, and the elite bias rho.

    Attributes:
      population, elites, children: chromosomes of one population; the rest of it are mutants.
      elite_bias: probability that a gene comes from the elite parent.
      populations: K, which share the evaluations equally.
      exchange_every: generations between two exchanges; of no effect with one population.
    """

    population: int = 100
    elites: int = 10
    children: int = 80
    elite_bias: float = 0.7
    populations: int = 1
    exchange_every: int = 50

    @property
    def initial(self) -> int:
        """Chromosomes of all populations: the evaluations of the initial ones."""
        return self.populations * self.population

    @property
    def newcomers(self) -> int:
        """Chromosomes evaluated in a generation: children and mutants of all populations."""
        return self.populations * (self.population - self.elites)

    @property
    def mutants(self) -> int:
        """Mutants of one population in a generation."""
        return self.population - self.elites - self.children


@chex.dataclass(frozen=True)
class BRKGAState:
    """The chromosomes of all populations, one population after the other.

    Attributes:
      chromosomes: float32[populations * population, genes].
      costs: float[populations * population].
    """

    chromosomes: chex.Array
    costs: chex.Array

    def best(self) -> tuple[jax.Array, jax.Array]:
        """(chromosome float32[genes], cost float[]) of lowest cost."""
        index = jnp.argmin(self.costs)
        return self.chromosomes[index], self.costs[index]


def uniform_mutants(num_genes: int) -> SampleMutants:
    """The distribution of standard BRKGA: every gene uniform on [0, 1)."""
    return lambda key, count: jax.random.uniform(key, (count, num_genes))


def beta_mutants(alpha: float, beta: float, num_genes: int) -> SampleMutants:
    """Every gene from Beta(alpha, beta), as in tuned BRKGA (section 4.2).

    Beta(1, 1) gives exactly the numbers of ``uniform_mutants``. Raises OptionError unless both
    parameters are positive.
    """
    if not (0.0 < alpha < math.inf and 0.0 < beta < math.inf):
        raise OptionError(f"a Beta distribution needs positive numbers, got ({alpha}, {beta})")
    table = jnp.asarray(beta_quantiles(np.array([alpha]), np.array([beta])))
    rows = jnp.zeros(num_genes, jnp.int32)
    return lambda key, count: sample_rows(key, table, rows, count)


def check_config(config: BRKGAConfig, evaluations: int | None = None) -> None:
    """Raises OptionError unless 0 < elites, children + elites <= population and the budget, if one
    is given, is at least the initial populations."""
    parts = config.elites + config.children
    if not (0 < config.elites < config.population and config.children >= 0):
        raise OptionError(f"BRKGA needs 0 < elites < population, got {config}")
    if parts > config.population:
        raise OptionError(f"elites + children ({parts}) exceed the population of {config}")
    if not 0.0 <= config.elite_bias <= 1.0:
        raise OptionError(f"elite_bias must be in [0, 1], got {config.elite_bias}")
    if config.populations < 1 or config.exchange_every < 1:
        raise OptionError(f"populations and exchange_every must be at least 1, got {config}")
    if evaluations is not None and evaluations < config.initial:
        raise OptionError(
            f"evaluations must be at least the population ({config.initial}), got {evaluations}"
        )


class BRKGAParams(NamedTuple):
    """The arrays of a search.

    Attributes:
      elite_bias: rho, a number or float[genes].
      mutants: what their distribution reads; None for one that reads nothing.
    """

    elite_bias: Any
    mutants: Any = None


Mutants = Callable[[Any], SampleMutants]
"""``BRKGAParams.mutants`` -> where new chromosomes come from."""


@functools.lru_cache(maxsize=256)
def algorithm(config: BRKGAConfig, mutants: Mutants) -> Algorithm:
    """BRKGA as an algorithm for ``search.base``, whose ``params`` are BRKGAParams: their elite bias
    is used, not the configuration's, so that searches that differ in it alone share a program.

    Generations whose number is a multiple of ``exchange_every`` end with an exchange.
    """
    check_config(config)
    if config.elite_bias != BRKGAConfig().elite_bias:
        return algorithm(config._replace(elite_bias=BRKGAConfig().elite_bias), mutants)

    def first(key, cost, known, params: BRKGAParams):
        return init(key, cost, mutants(params.mutants), warm_start=known, config=config)

    def generation(key, index, state, cost, params: BRKGAParams):
        sample = mutants(params.mutants)
        bias = params.elite_bias
        state = step(key, state, cost, sample, elite_bias=bias, config=config)
        if config.populations == 1:
            return state
        due = (index + 1) % config.exchange_every == 0
        return jax.lax.cond(due, lambda state: exchange(state, config), lambda s: s, state)

    def last(key, state, cost, params: BRKGAParams, remainder: int):
        sample, config_of_last = mutants(params.mutants), last_generation(config, remainder)
        bias = params.elite_bias
        return step(key, state, cost, sample, elite_bias=bias, config=config_of_last)

    return Algorithm(
        first,
        generation,
        last,
        BRKGAState.best,
        lambda state: state.chromosomes,
        config.initial,
        config.newcomers,
    )


def search(
    key: chex.PRNGKey,
    fitness: Fitness,
    sample_mutants: SampleMutants,
    evaluations: int,
    *,
    elite_bias: jax.Array | float | None = None,
    warm_start: jax.Array | None = None,
    config: BRKGAConfig | None = None,
) -> Trajectory:
    """Evolves populations for exactly ``evaluations`` costs of a chromosome; for jit.

    Args:
      key: random key.
      fitness: the cost.
      sample_mutants: D of section 3.2; also makes the initial population.
      evaluations: budget of all populations; elites that are carried over, and chromosomes that are
        exchanged, are not evaluated again. The last generation is smaller where the budget ends
        inside it (``last_generation``).
      elite_bias: rho, a number or float[genes]; ``config.elite_bias`` by default.
      warm_start: float32[W, genes], known solutions to start with; see ``init``.
      config: population parameters.

    Raises:
      OptionError: if the budget is below the initial populations.
    """
    config = config or BRKGAConfig()
    check_config(config, evaluations)
    params = BRKGAParams(config.elite_bias if elite_bias is None else elite_bias)
    evolution = algorithm(config, lambda _: sample_mutants)
    return base.scan(key, evolution, fitness, evaluations, params=params, known=warm_start)


def last_generation(config: BRKGAConfig, remainder: int) -> BRKGAConfig:
    """The parameters of a generation with only ``remainder`` newcomers: children before mutants.

    Several populations are joined for it into one, with the elites and children of all.
    """
    elites = config.populations * config.elites
    children = min(config.populations * config.children, remainder)
    return config._replace(
        population=elites + remainder, elites=elites, children=children, populations=1
    )


def history_evaluations(evaluations: int, config: BRKGAConfig | None = None) -> list[int]:
    """Evaluations spent at each entry of a search's history."""
    config = config or BRKGAConfig()
    return base.spent_at(evaluations, config.initial, config.newcomers)


def init(
    key: chex.PRNGKey,
    fitness: Fitness,
    sample_mutants: SampleMutants,
    *,
    warm_start: jax.Array | None = None,
    config: BRKGAConfig,
) -> BRKGAState:
    """The initial populations: known solutions first, from the first population on, the rest
    sampled."""
    known = 0 if warm_start is None else len(warm_start)
    if known > config.initial:
        raise OptionError(f"{known} warm starts exceed the population of {config.initial}")
    chromosomes = sample_mutants(key, config.initial - known)
    if warm_start is not None:
        chromosomes = jnp.concatenate([warm_start, chromosomes])
    return BRKGAState(chromosomes=chromosomes, costs=fitness(chromosomes))


def step(
    key: chex.PRNGKey,
    state: BRKGAState,
    fitness: Fitness,
    sample_mutants: SampleMutants,
    *,
    elite_bias: jax.Array | float,
    config: BRKGAConfig,
) -> BRKGAState:
    """One generation: keep the elites, cross them with non-elites, add mutants (section 3.2).

    With K > 1 populations, each does so by itself, with its own one of K split keys; the newcomers
    of all are evaluated at once.
    """

    def breed_one(key, state):
        return breed(key, state, sample_mutants, elite_bias=elite_bias, config=config)

    if config.populations == 1:
        elites, newcomers = breed_one(key, state)
    else:
        keys = jax.random.split(key, config.populations)
        elites, newcomers = jax.vmap(breed_one)(keys, _apart(state, config))
    num_genes = newcomers.shape[-1]
    costs = fitness(newcomers.reshape(-1, num_genes)).reshape(newcomers.shape[:-1])
    chromosomes = jnp.concatenate([elites.chromosomes, newcomers], axis=-2)
    return BRKGAState(
        chromosomes=chromosomes.reshape(-1, num_genes),
        costs=jnp.concatenate([elites.costs, costs], axis=-1).ravel(),
    )


def breed(
    key: chex.PRNGKey,
    state: BRKGAState,
    sample_mutants: SampleMutants,
    *,
    elite_bias: jax.Array | float,
    config: BRKGAConfig,
) -> tuple[BRKGAState, jax.Array]:
    """(elites, newcomers float32[children + mutants, genes]) of one population."""
    child_key, mutant_key = jax.random.split(key)
    ranking = jnp.argsort(state.costs, stable=True)
    elites = ranking[: config.elites]
    children = crossover(child_key, state.chromosomes, ranking, elite_bias, config)
    mutants = sample_mutants(mutant_key, config.mutants)
    kept = BRKGAState(chromosomes=state.chromosomes[elites], costs=state.costs[elites])
    return kept, jnp.concatenate([children, mutants])


def exchange(state: BRKGAState, config: BRKGAConfig) -> BRKGAState:
    """The two best chromosomes of all populations replace the worst of every other population.

    A population that one of them is from gets only the other. Lower indices win ties; whether a
    population already has an equal chromosome is not looked at.
    """
    best = jnp.argsort(state.costs, stable=True)[:2]
    size = config.population

    def places(costs, island):
        """int[2]: where the two go in a population; one that is from here stays where it is."""
        foreign = best // size != island
        worst = jnp.argsort(costs, stable=True)[::-1][jnp.cumsum(foreign) - 1]
        return jnp.where(foreign, island * size + worst, best)

    islands = jnp.arange(config.populations)
    targets = jax.vmap(places)(_apart(state, config).costs, islands)
    return jax.tree.map(lambda leaf: leaf.at[targets].set(leaf[best]), state)


def _apart(state: BRKGAState, config: BRKGAConfig) -> BRKGAState:
    """The same with a leading axis for populations."""
    return jax.tree.map(lambda leaf: leaf.reshape(config.populations, -1, *leaf.shape[1:]), state)


def crossover(
    key: chex.PRNGKey,
    chromosomes: jax.Array,
    ranking: jax.Array,
    elite_bias: jax.Array | float,
    config: BRKGAConfig,
) -> jax.Array:
    """float32[children, genes]: each gene from an elite with probability rho, else a non-elite.

    Parents are drawn uniformly; ``ranking`` int[population] lists chromosomes by increasing cost.
    """
    elite_key, other_key, gene_key = jax.random.split(key, 3)
    count, shape = len(ranking), (config.children,)
    elite = chromosomes[ranking[jax.random.randint(elite_key, shape, 0, config.elites)]]
    other = chromosomes[ranking[jax.random.randint(other_key, shape, config.elites, count)]]
    return jnp.where(jax.random.bernoulli(gene_key, elite_bias, elite.shape), elite, other)

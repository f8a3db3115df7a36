"""BRKGA: the biased random-key genetic algorithm (REGAL section 3.2).

A search for one problem; ``vmap`` it for many. What it minimises, and where new chromosomes come
from, are functions: REGAL is this search with a learned ``sample_mutants``.
"""

from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from regal_jax.errors import OptionError

Fitness = Callable[[jax.Array], jax.Array]
"""float32[B, genes] -> float[B], a cost to minimise."""

SampleMutants = Callable[[chex.PRNGKey, int], jax.Array]
"""(key, count) -> float32[count, genes]: the chromosome generation distribution."""


class BRKGAConfig(NamedTuple):
    """Population parameters, pi, pi_e and pi_c of section 4.2, and the elite bias rho."""

    population: int = 100
    elites: int = 10
    children: int = 80
    elite_bias: float = 0.7

    @property
    def newcomers(self) -> int:
        """Chromosomes evaluated in a generation: children and mutants."""
        return self.population - self.elites


@chex.dataclass(frozen=True)
class BRKGAState:
    """A population.

    Attributes:
      chromosomes: float32[population, genes].
      costs: float[population].
    """

    chromosomes: chex.Array
    costs: chex.Array

    def best(self) -> tuple[jax.Array, jax.Array]:
        """(chromosome float32[genes], cost float[]) of lowest cost."""
        index = jnp.argmin(self.costs)
        return self.chromosomes[index], self.costs[index]


class SearchResult(NamedTuple):
    """What a search found.

    Attributes:
      state: the last population.
      history: float[generations + 1], best cost so far after each generation (0: the initial one).
    """

    state: BRKGAState
    history: jax.Array


def uniform_mutants(num_genes: int) -> SampleMutants:
    """The distribution of standard BRKGA: every gene uniform on [0, 1)."""
    return lambda key, count: jax.random.uniform(key, (count, num_genes))


def check_config(config: BRKGAConfig, evaluations: int) -> None:
    """Raises OptionError unless 0 < elites, children + elites <= population <= evaluations."""
    parts = config.elites + config.children
    if not (0 < config.elites < config.population and config.children >= 0):
        raise OptionError(f"BRKGA needs 0 < elites < population, got {config}")
    if parts > config.population:
        raise OptionError(f"elites + children ({parts}) exceed the population of {config}")
    if not 0.0 <= config.elite_bias <= 1.0:
        raise OptionError(f"elite_bias must be in [0, 1], got {config.elite_bias}")
    if evaluations < config.population:
        raise OptionError(
            f"evaluations must be at least the population ({config.population}), got {evaluations}"
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
) -> SearchResult:
    """Evolves a population for exactly ``evaluations`` calls of the fitness on a chromosome.

    Args:
      key: random key.
      fitness: the cost.
      sample_mutants: D of section 3.2; also makes the initial population.
      evaluations: budget; elites that are carried over are not evaluated again. The last generation
        is smaller where the budget ends inside it.
      elite_bias: rho, a number or float[genes]; ``config.elite_bias`` by default.
      warm_start: float32[W, genes], W <= population, known solutions to start with.
      config: population parameters.

    Raises:
      OptionError: if the budget is below the population.
    """
    config = config or BRKGAConfig()
    check_config(config, evaluations)
    generations, remainder = divmod(evaluations - config.population, config.newcomers)
    init_key, evolve_key, last_key = jax.random.split(key, 3)
    options = {"elite_bias": config.elite_bias if elite_bias is None else elite_bias}
    state = init(init_key, fitness, sample_mutants, warm_start=warm_start, config=config)
    history = jnp.full(generations + 1, jnp.min(state.costs))
    state, history = evolve(
        evolve_key,
        state,
        history,
        0,
        generations,
        fitness,
        sample_mutants,
        config=config,
        **options,
    )
    if remainder:
        last = last_generation(config, remainder)
        state = step(last_key, state, fitness, sample_mutants, config=last, **options)
        history = jnp.append(history, jnp.min(state.costs))
    return SearchResult(state, history)


def evolve(
    key: chex.PRNGKey,
    state: BRKGAState,
    history: jax.Array,
    first: jax.Array | int,
    last: jax.Array | int,
    fitness: Fitness,
    sample_mutants: SampleMutants,
    *,
    elite_bias: jax.Array | float,
    config: BRKGAConfig,
) -> tuple[BRKGAState, jax.Array]:
    """Generations ``first`` to ``last`` (not included); entry i + 1 of ``history`` is after i.

    Generation i has the key (key, i), so that a run in parts is the same as one in whole.
    """

    def generation(index, carry):
        state, history = carry
        state = step(
            jax.random.fold_in(key, index),
            state,
            fitness,
            sample_mutants,
            elite_bias=elite_bias,
            config=config,
        )
        return state, history.at[index + 1].set(jnp.min(state.costs))

    return jax.lax.fori_loop(first, last, generation, (state, history))


def last_generation(config: BRKGAConfig, remainder: int) -> BRKGAConfig:
    """The parameters of a generation with only ``remainder`` newcomers: children before mutants."""
    children = min(config.children, remainder)
    return config._replace(population=config.elites + remainder, children=children)


def history_evaluations(evaluations: int, config: BRKGAConfig | None = None) -> list[int]:
    """Evaluations spent at each entry of ``SearchResult.history``."""
    config = config or BRKGAConfig()
    spent = list(range(config.population, evaluations + 1, config.newcomers))
    return spent if spent[-1] == evaluations else [*spent, evaluations]


def init(
    key: chex.PRNGKey,
    fitness: Fitness,
    sample_mutants: SampleMutants,
    *,
    warm_start: jax.Array | None = None,
    config: BRKGAConfig,
) -> BRKGAState:
    """The initial population: known solutions first, the rest sampled."""
    known = 0 if warm_start is None else len(warm_start)
    if known > config.population:
        raise OptionError(f"{known} warm starts exceed the population of {config.population}")
    chromosomes = sample_mutants(key, config.population - known)
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
    """One generation: keep the elites, cross them with non-elites, add mutants (section 3.2)."""
    child_key, mutant_key = jax.random.split(key)
    ranking = jnp.argsort(state.costs, stable=True)
    elites = ranking[: config.elites]
    children = crossover(child_key, state.chromosomes, ranking, elite_bias, config)
    mutants = sample_mutants(mutant_key, config.newcomers - config.children)
    newcomers = jnp.concatenate([children, mutants])
    return BRKGAState(
        chromosomes=jnp.concatenate([state.chromosomes[elites], newcomers]),
        costs=jnp.concatenate([state.costs[elites], fitness(newcomers)]),
    )


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

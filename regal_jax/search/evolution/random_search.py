"""Random search: the best of many samples of one distribution.

With uniform chromosomes this is the plain baseline, with learned mutants the instance-dependent
random search (IDRS) of REGAL's workshop paper. A run in parts is the same as one in whole.
"""

import chex
import jax
import jax.numpy as jnp

from regal_jax.errors import OptionError
from regal_jax.search.evolution.brkga import Fitness, SampleMutants


@chex.dataclass(frozen=True)
class Incumbent:
    """The best chromosome so far.

    Attributes:
      chromosome: float32[genes].
      cost: float[].
    """

    chromosome: chex.Array
    cost: chex.Array


def random_search(
    key: chex.PRNGKey,
    fitness: Fitness,
    sample_mutants: SampleMutants,
    evaluations: int,
    *,
    batch: int = 100,
) -> tuple[jax.Array, jax.Array]:
    """The best of exactly ``evaluations`` samples.

    Args:
      key: random key; the batch that begins after n evaluations has the key (key, n).
      fitness: the cost.
      sample_mutants: the distribution.
      evaluations: budget, at least 1; the last batch is smaller where the budget ends inside it.
      batch: samples evaluated at once.

    Returns:
      (best chromosome float32[genes], best cost so far after each batch float[batches]).

    Raises:
      OptionError: if the budget or the batch is below 1.
    """
    check_budget(evaluations, batch)
    batches, remainder = divmod(evaluations, batch)
    first = min(batch, evaluations)
    best = best_sample(jax.random.fold_in(key, 0), fitness, sample_mutants, first)
    history = jnp.full(-(-evaluations // batch), best.cost)
    best, history = advance(key, best, history, 1, batches, fitness, sample_mutants, batch=batch)
    if remainder and batches:
        last_key = jax.random.fold_in(key, batches * batch)
        best = better(best, best_sample(last_key, fitness, sample_mutants, remainder))
        history = history.at[batches].set(best.cost)
    return best.chromosome, history


def check_budget(evaluations: int, batch: int = 100) -> None:
    """Raises OptionError unless there is something to evaluate."""
    if evaluations < 1:
        raise OptionError(f"evaluations must be at least 1, got {evaluations}")
    if batch < 1:
        raise OptionError(f"batch must be at least 1, got {batch}")


def history_evaluations(evaluations: int, batch: int = 100) -> list[int]:
    """Evaluations spent at each entry of the history."""
    return [*range(batch, evaluations, batch), evaluations]


def advance(
    key: chex.PRNGKey,
    best: Incumbent,
    history: jax.Array,
    first: jax.Array | int,
    last: jax.Array | int,
    fitness: Fitness,
    sample_mutants: SampleMutants,
    *,
    batch: int,
) -> tuple[Incumbent, jax.Array]:
    """Whole batches ``first`` to ``last`` (not included); entry i of ``history`` is after i."""

    def one_batch(index, carry):
        best, history = carry
        sample_key = jax.random.fold_in(key, index * batch)
        best = better(best, best_sample(sample_key, fitness, sample_mutants, batch))
        return best, history.at[index].set(best.cost)

    return jax.lax.fori_loop(first, last, one_batch, (best, history))


def best_sample(
    key: chex.PRNGKey, fitness: Fitness, sample_mutants: SampleMutants, count: int
) -> Incumbent:
    """The best of ``count`` new samples, the first one on ties."""
    chromosomes = sample_mutants(key, count)
    costs = fitness(chromosomes)
    index = jnp.argmin(costs)
    return Incumbent(chromosome=chromosomes[index], cost=costs[index])


def better(old: Incumbent, new: Incumbent) -> Incumbent:
    """Whichever costs less, the old one on ties."""
    improved = new.cost < old.cost
    return jax.tree.map(lambda a, b: jnp.where(improved, b, a), old, new)

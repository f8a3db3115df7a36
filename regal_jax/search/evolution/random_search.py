"""Random search: the best of many samples of one distribution.

With uniform chromosomes this is the plain baseline, with learned mutants the instance-dependent
random search (IDRS) of REGAL's workshop paper.
"""

import functools

import chex
import jax
import jax.numpy as jnp

from regal_jax.environments.placement.chromosome import SampleMutants
from regal_jax.errors import OptionError
from regal_jax.search.base import Algorithm, Cost
from regal_jax.search.evolution.brkga import Mutants


@chex.dataclass(frozen=True)
class Incumbent:
    """The best chromosome so far.

    Attributes:
      chromosome: float32[genes].
      cost: float[].
    """

    chromosome: chex.Array
    cost: chex.Array


@functools.lru_cache(maxsize=256)
def algorithm(mutants: Mutants, evaluations: int, batch: int = 100) -> Algorithm:
    """Random search as an algorithm, whose ``params`` are what the distribution reads.

    Args:
      mutants: makes the distribution of them.
      evaluations: budget; of it, only whether it is below the batch matters.
      batch: samples evaluated at once.

    Raises:
      OptionError: if the budget or the batch is below 1.
    """
    if evaluations < 1:
        raise OptionError(f"evaluations must be at least 1, got {evaluations}")
    if batch < 1:
        raise OptionError(f"batch must be at least 1, got {batch}")
    if evaluations > batch:
        return algorithm(mutants, batch, batch)

    def sampled(key, cost, params, count: int):
        return best_sample(key, cost, mutants(params), count)

    return Algorithm(
        init=lambda key, cost, known, params: sampled(key, cost, params, evaluations),
        step=lambda key, index, best, cost, params: better(best, sampled(key, cost, params, batch)),
        finish=lambda key, best, cost, params, remainder: better(
            best, sampled(key, cost, params, remainder)
        ),
        best=lambda best: (best.chromosome, best.cost),
        population=lambda best: best.chromosome[None],
        initial=evaluations,
        newcomers=batch,
    )


def best_sample(
    key: chex.PRNGKey, cost: Cost, sample_mutants: SampleMutants, count: int
) -> Incumbent:
    """The best of ``count`` new samples, the first one on ties."""
    chromosomes = sample_mutants(key, count)
    costs = cost(chromosomes)
    index = jnp.argmin(costs)
    return Incumbent(chromosome=chromosomes[index], cost=costs[index])


def better(old: Incumbent, new: Incumbent) -> Incumbent:
    """Whichever costs less, the old one on ties."""
    improved = new.cost < old.cost
    return jax.tree.map(lambda a, b: jnp.where(improved, b, a), old, new)

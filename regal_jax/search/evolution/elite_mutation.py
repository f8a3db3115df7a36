"""Evolution by changes of elites: each newcomer is one of the best so far with a few genes changed.

BRKGA's mutants are drawn anew, and its children mix them with elites; when a good schedule is
known, its close neighbours are worth more. How an elite is changed is a function: REGAL learns it.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from regal_jax.environments.placement.chromosome import Change
from regal_jax.errors import OptionError
from regal_jax.search.base import Algorithm
from regal_jax.search.evolution.brkga import BRKGAState

Changes = Callable[[Any], Change]
"""What is traced of a search -> how its elites are changed."""


class EliteConfig(NamedTuple):
    """Parameters.

    Attributes:
      elites: chromosomes that are kept, and changed. newcomers: changed copies a generation.
    """

    elites: int = 10
    newcomers: int = 90


@functools.lru_cache(maxsize=256)
def algorithm(config: EliteConfig, known: int, changes: Changes) -> Algorithm:
    """As an algorithm for ``search.base``: its ``params`` are what ``changes`` reads.

    The search begins with ``known`` chromosomes and so many changed copies of them that a
    generation is full. Of equal costs newcomers are kept, so that a search drifts over plateaus.
    Raises OptionError unless all three numbers are positive.
    """
    if min(config.elites, config.newcomers, known) < 1:
        raise OptionError(f"elite mutation needs elites, newcomers and a known schedule: {config}")

    def first(key, cost, chromosomes, params) -> BRKGAState:
        newcomers = _newcomers(key, chromosomes, config.newcomers, changes(params))
        everyone = jnp.concatenate([newcomers, chromosomes])
        return _best(everyone, cost(everyone), config.elites)

    def generation(key, index, state: BRKGAState, cost, params) -> BRKGAState:
        return _generation(key, state, cost, changes(params), config.newcomers)

    def last(key, state: BRKGAState, cost, params, remainder: int) -> BRKGAState:
        return _generation(key, state, cost, changes(params), remainder)

    return Algorithm(
        first,
        generation,
        last,
        BRKGAState.best,
        lambda state: state.chromosomes,
        known + config.newcomers,
        config.newcomers,
    )


def _generation(key, state: BRKGAState, cost, change: Change, count: int) -> BRKGAState:
    newcomers = _newcomers(key, state.chromosomes, count, change)
    everyone = jnp.concatenate([newcomers, state.chromosomes])
    return _best(everyone, jnp.concatenate([cost(newcomers), state.costs]), len(state.costs))


def _newcomers(key, parents: jax.Array, count: int, change: Change) -> jax.Array:
    """float32[count, genes]: changed copies of parents drawn uniformly."""
    parent_key, change_key = jax.random.split(key)
    which = jax.random.randint(parent_key, (count,), 0, len(parents))
    return change(change_key, parents[which])


def _best(chromosomes: jax.Array, costs: jax.Array, count: int) -> BRKGAState:
    """The chromosomes of least cost, the first ones on ties."""
    ranking = jnp.argsort(costs, stable=True)[:count]
    return BRKGAState(chromosomes=chromosomes[ranking], costs=costs[ranking])

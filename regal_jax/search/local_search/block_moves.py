"""Hill climbing by block moves: neighbours of a good schedule, many at a time.

Random keys change one op at a time; what shortens a schedule is often a stretch of it that moves
together. A move takes the ops whose priority lies in a random window, that is a stretch of the
order, and either puts them on one device or shifts them earlier or later.
"""

import functools
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from regal_jax.environments.placement import chromosome as placement_chromosome
from regal_jax.environments.placement.chromosome import Genes
from regal_jax.search.base import Algorithm, Cost


@chex.dataclass(frozen=True)
class ClimbState:
    """The incumbent.

    Attributes:
      genes: its Genes; affinity float32[O, D], op_priority [O], transfer_priority [T, D].
      cost: float[].
    """

    genes: Genes
    cost: chex.Array


class ClimbParams(NamedTuple):
    """The arrays of a climb.

    Attributes:
      num_ops: int[], ops that are not padding.
      cost: float[], of the chromosome that the climb begins with.
    """

    num_ops: Any
    cost: Any


@functools.lru_cache(maxsize=256)
def algorithm(num_ops: int, num_devices: int, neighbours: int = 100) -> Algorithm:
    """Hill climbing from the one known chromosome, whose ``params`` are ClimbParams.

    Each step evaluates ``neighbours`` chromosomes and moves to the best if it costs no more, so
    that plateaus, which a maximum over time has many of, are crossed. Begins at no evaluation, and
    leaves a budget's rest that is less than a step.

    Args:
      num_ops, num_devices: O, D of the padded chromosomes.
      neighbours: chromosomes a step.
    """

    def init(key, cost, known, params: ClimbParams) -> ClimbState:
        genes = placement_chromosome.split(known[0], num_ops, num_devices)
        return ClimbState(genes=genes, cost=jnp.asarray(params.cost, float))

    def step(key, index, state: ClimbState, cost: Cost, params: ClimbParams) -> ClimbState:
        keys = jax.random.split(key, neighbours)
        moved = jax.vmap(lambda key: block_move(key, state.genes, params.num_ops))(keys)
        costs = cost(_flat(moved))
        best = jnp.argmin(costs)
        better = costs[best] <= state.cost
        genes = jax.tree.map(lambda new, old: jnp.where(better, new[best], old), moved, state.genes)
        return ClimbState(genes=genes, cost=jnp.minimum(costs[best], state.cost))

    def best(state: ClimbState) -> tuple[jax.Array, jax.Array]:
        return placement_chromosome.join(state.genes), state.cost

    population = lambda state: best(state)[0][None]  # noqa: E731
    return Algorithm(init, step, None, best, population, 0, neighbours)


def block_move(key: chex.PRNGKey, genes: Genes, num_ops: jax.Array) -> Genes:
    """One random neighbour: a stretch of the order changes device, or place in the order, or both.

    Lengths are log-uniform from one op to all, so that small and large moves are equally likely.
    """
    length_key, start_key, device_key, shift_key, kind_key, thin_key = jax.random.split(key, 6)
    real = jnp.arange(len(genes.op_priority)) < num_ops
    ranked = jnp.argsort(jnp.where(real, -genes.op_priority, jnp.inf))
    place = jnp.zeros(len(real), jnp.int32).at[ranked].set(jnp.arange(len(real), dtype=jnp.int32))
    total = jnp.maximum(num_ops, 1).astype(float)
    length = jnp.exp(jax.random.uniform(length_key) * jnp.log(total))
    start = jax.random.uniform(start_key) * (total + length) - length
    inside = real & (place >= start) & (place < start + length)
    kind = jax.random.randint(kind_key, (), 0, 4)
    thinned = inside & (jax.random.uniform(thin_key, inside.shape) < 0.5)
    inside = jnp.where(kind == 3, thinned, inside)
    num_devices = genes.affinity.shape[1]
    device = jax.random.randint(device_key, (), 0, num_devices)
    onto = jax.nn.one_hot(device, num_devices)
    placed = jnp.where(inside[:, None] & (kind != 2), onto, genes.affinity)
    shift = jax.random.normal(shift_key) * jnp.exp(-4.0 * jax.random.uniform(start_key))
    shifted = jnp.where(inside & ((kind == 1) | (kind == 2)), shift, 0.0) + genes.op_priority
    return Genes(placed, shifted, genes.transfer_priority)


def _flat(genes: Genes) -> jax.Array:
    """Chromosomes float32[B, genes] of stacked Genes."""
    return jnp.concatenate([part.reshape(len(part), -1) for part in genes], axis=1)

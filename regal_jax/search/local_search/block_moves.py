"""Hill climbing by block moves: neighbours of a good schedule, many at a time.

Random keys change one op at a time; what shortens a schedule is often a stretch of it that moves
together. A move takes the ops whose priority lies in a random window, that is a stretch of the
order, and either puts them on one device or shifts them earlier or later.
"""

import chex
import jax
import jax.numpy as jnp

from regal_jax.environments.placement.chromosome import Genes
from regal_jax.search.evolution.brkga import Fitness


@chex.dataclass(frozen=True)
class ClimbState:
    """The incumbent.

    Attributes:
      genes: its Genes; affinity float32[O, D], op_priority [O], transfer_priority [T, D].
      cost: float[].
    """

    genes: Genes
    cost: chex.Array


def climb(
    key: chex.PRNGKey,
    state: ClimbState,
    fitness: Fitness,
    first: jax.Array | int,
    last: jax.Array | int,
    history: jax.Array,
    *,
    num_ops: jax.Array,
    neighbours: int = 100,
) -> tuple[ClimbState, jax.Array]:
    """Rounds ``first`` to ``last`` (not included); entry i of ``history`` is the cost after i.

    Each round evaluates ``neighbours`` chromosomes and moves to the best if it costs no more, so
    that plateaus, which a maximum over time has many of, are crossed.

    Args:
      key: random key; round i uses (key, i).
      state: where to start.
      fitness: float32[B, genes] -> float[B].
      history: float[>= last].
      num_ops: int[], ops that are not padding.
      neighbours: chromosomes a round.
    """

    def one_round(index, carry):
        state, history = carry
        keys = jax.random.split(jax.random.fold_in(key, index), neighbours)
        moved = jax.vmap(lambda key: block_move(key, state.genes, num_ops))(keys)
        costs = fitness(_flat(moved))
        best = jnp.argmin(costs)
        better = costs[best] <= state.cost
        genes = jax.tree.map(lambda new, old: jnp.where(better, new[best], old), moved, state.genes)
        cost = jnp.minimum(costs[best], state.cost)
        return ClimbState(genes=genes, cost=cost), history.at[index].set(cost)

    return jax.lax.fori_loop(first, last, one_round, (state, history))


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

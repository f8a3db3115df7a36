"""Distributions over the topological orders of a graph (neural_topological_ordering, 4.2).

Ops have priorities; the next op is drawn by the softmax of the priorities of those that are
schedulable (eq. 8). An order is known by the ``position`` of each op in it.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from regal_jax.graphs.features.relations import Relations
from regal_jax.policies.networks.message_passing import MLP
from regal_jax.policies.networks.topoformer import Encoder, EncoderConfig

ALPHA = 5.0
"""The spread of priorities (eq. 17)."""
_NEVER = -1e30


class Priorities(nn.Module):
    """float32[O]: priorities of ops (eq. 7), of mean 0 and deviation ALPHA (eq. 17); 0 for padding.

    Ops of one priority each (a single op, say) all get 0. With ``guided``, the first feature is
    added to the priority times a learned number, and a new policy has that priority alone.
    """

    config: EncoderConfig
    guided: bool = False

    @nn.compact
    def __call__(self, features: jax.Array, relations: Relations) -> jax.Array:
        state = Encoder(self.config, name="encoder")(features, relations)
        head = MLP(self.config.size, 1, zero_last=self.guided, name="decoder")
        priority = head(state)[:, 0]
        if self.guided:
            priority += self.param("guide", nn.initializers.ones, ()) * features[:, 0]
        return standardised(priority, relations.real)


def standardised(priority: jax.Array, real: jax.Array) -> jax.Array:
    """Eq. 17 over the real ops."""
    count = jnp.maximum(jnp.sum(real), 1)
    centred = jnp.where(real, priority - jnp.sum(jnp.where(real, priority, 0.0)) / count, 0.0)
    deviation = jnp.sqrt(jnp.sum(centred**2) / count + 1e-12)
    return ALPHA * centred / deviation


def schedulable_since(position: jax.Array, senders: jax.Array, receivers: jax.Array) -> jax.Array:
    """int32[O]: the step from which on each op could have run: after the last op that it reads."""
    after = position.at[senders].get(mode="fill", fill_value=-1) + 1
    return jnp.zeros_like(position).at[receivers].max(after, mode="drop")


def log_prob(
    priority: jax.Array, position: jax.Array, senders: jax.Array, receivers: jax.Array
) -> jax.Array:
    """float32[]: log-probability of an order (eq. 6 and 8).

    An op is schedulable from some step until it runs: an interval of steps. Each interval is cut
    into at most 2 log2(O) blocks of a binary tree over the steps, and a step's softmax is over the
    blocks above it. So this takes O log O space, sums nothing but what it needs (differences of
    running sums would cancel), and has no loop over the steps.

    Args:
      priority: float32[O]. position: int32[O]; O or more for padding.
      senders, receivers: int32[E], the edges; O for padding.
    """
    num_ops = len(priority)
    real = position < num_ops
    since = schedulable_since(position, senders, receivers)
    levels = max(num_ops - 1, 1).bit_length() + 1
    low, high, left = since, position, real
    step = jnp.arange(num_ops)
    blocks = []
    for level in range(levels):
        begins, ends = left & (low % 2 == 1), left & (high % 2 == 0)
        index = jnp.concatenate([jnp.where(begins, low, num_ops), jnp.where(ends, high, num_ops)])
        table = _segment_logsumexp(jnp.tile(priority, 2), index, num_ops)
        blocks.append(table[step >> level])
        low, high = low + begins, high - ends
        low, high, left = low >> 1, high >> 1, left & (low <= high)
    total = jax.nn.logsumexp(jnp.stack(blocks), axis=0)
    return jnp.sum(jnp.where(real, priority - total.at[position].get(mode="clip"), 0.0))


def _segment_logsumexp(values: jax.Array, index: jax.Array, length: int) -> jax.Array:
    """float32[length]: log-sum-exp of the values of each index below it; _NEVER without any."""
    top = jnp.full(length, _NEVER).at[index].max(jax.lax.stop_gradient(values), mode="drop")
    shifted = jnp.exp(values - top.at[index].get(mode="fill", fill_value=jnp.inf))
    total = jnp.zeros(length).at[index].add(shifted, mode="drop")
    some = total > 0
    return jnp.where(some, jnp.log(jnp.where(some, total, 1.0)) + top, _NEVER)


def sample_positions(
    key: jax.Array, priority: jax.Array, relations: Relations, *, greedy: bool = False
) -> jax.Array:
    """int32[O]: positions of ops in an order drawn by eq. 8, or the most likely op at each step.

    Ties go to the lowest op; padding gets position O. Takes O(E) a step: for accelerators
    (``search.orders.sampling`` is for CPUs).
    """
    num_ops = len(priority)
    senders, receivers, real = relations.senders, relations.receivers, relations.real
    waiting = jnp.zeros(num_ops, jnp.int32).at[receivers].add(1, mode="drop")

    def run(carry, step):
        waiting, position = carry
        ready = (waiting == 0) & (position == num_ops) & real
        noise = 0.0 if greedy else jax.random.gumbel(jax.random.fold_in(key, step), (num_ops,))
        op = jnp.argmax(jnp.where(ready, priority + noise, -jnp.inf))
        position = position.at[op].set(jnp.where(jnp.any(ready), step, position[op]))
        done = jnp.any(ready) & (senders == op)
        return (waiting.at[receivers].add(-done.astype(jnp.int32), mode="drop"), position), None

    start = (waiting, jnp.full(num_ops, num_ops, jnp.int32))
    return jax.lax.scan(run, start, jnp.arange(num_ops))[0][1]

"""An autoregressive distribution over topological orders: each next op is chosen in view of those
before it (neural_topological_ordering, appendix B).

The decoder is that of Kool, van Hoof and Welling 2019, "Attention, learn to solve routing
problems!", section 3.2, with all ops masked that are not schedulable. A context, of the graph, the
last op and the first one, attends to the schedulable ops (the "glimpse", HEADS heads); the
glimpse's scaled dot products with the ops, clipped by tanh, are the logits of the next op.

Deviations from Kool et al.: op representations are normalised before the decoder, since our
encoders, unlike theirs, don't end in a normalisation. The context keeps the first op, though an
order is no round trip: the paper names no change but the mask. Nothing else depends on the earlier
ops, but the mask. The layer behind the glimpse is applied to the ops, once, not to each glimpse;
the products are the same. It all is float32, whatever the encoder computes in.
"""

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp

from regal_jax.graphs.features.relations import Relations
from regal_jax.policies.networks.topoformer import Encoder, EncoderConfig
from regal_jax.policies.topological_order.sampler import schedulable_since

HEADS = 8
"""Of the glimpse (M of section 3.2)."""
CLIP = 10.0
"""The largest logit (C of eq. 7)."""
BLOCK = 256
"""Steps of given orders whose logits are computed at a time, and again for the gradient, so that
memory grows with the number of ops, not with its square."""
_NEVER = -1e30
_KERNEL = nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")
"""Uniform in +-1/sqrt(inputs), like theirs."""


@chex.dataclass(frozen=True)
class Projections:
    """All that the choice of the next op needs of a graph; H heads of K numbers.

    Attributes:
      graph: float32[H, K], the query's part of the mean op.
      last, first: float32[O + 1, H, K], its parts of the last and the first op of an order; row O
        is for an order that has none yet.
      key, value: float32[O, H, K], of the glimpse.
      pointer: float32[O, H, K], that the glimpse is compared with.
    """

    graph: chex.Array
    last: chex.Array
    first: chex.Array
    key: chex.Array
    value: chex.Array
    pointer: chex.Array


class Decoder(nn.Module):
    """The projections of an encoder's op representations.

    A head has ``size / HEADS`` numbers (rounded up) and the pointer ``size``.
    """

    config: EncoderConfig

    @nn.compact
    def __call__(self, features: jax.Array, relations: Relations) -> Projections:
        size = self.config.size
        shape = (HEADS, -(-size // HEADS))
        state = nn.LayerNorm(name="norm")(Encoder(self.config, name="encoder")(features, relations))
        real = relations.real[:, None]
        mean = jnp.sum(jnp.where(real, state, 0.0), axis=0) / jnp.maximum(jnp.sum(real), 1)
        missing = self.param("missing", nn.initializers.normal(1.0), (2, size))

        def project(name, inputs):
            layer = nn.DenseGeneral(shape, use_bias=False, kernel_init=_KERNEL, name=name)
            return layer(inputs)

        pointer = nn.Dense(size, use_bias=False, kernel_init=_KERNEL, name="pointer")(state)
        return Projections(
            graph=project("graph", mean),
            last=project("last", jnp.concatenate([state, missing[:1]])),
            first=project("first", jnp.concatenate([state, missing[1:]])),
            key=project("key", state),
            value=project("value", state),
            pointer=project("glimpse", pointer) / jnp.sqrt(float(size)),
        )


def logits(encoding: Projections, ready: jax.Array, last: jax.Array, first: jax.Array) -> jax.Array:
    """float32[O]: of the next op (eq. 5-7), -1e30 for ops that aren't ready.

    Args:
      encoding: of the graph.
      ready: bool[O], the schedulable ops.
      last, first: int32[], ops of the order so far; O or -1 if there are none.
    """
    query = encoding.graph + encoding.last[last] + encoding.first[first]
    scores = jnp.einsum("hk,ohk->ho", query, encoding.key) / jnp.sqrt(float(query.shape[-1]))
    share = jax.nn.softmax(jnp.where(ready, scores, _NEVER), axis=-1)
    glimpse = jnp.einsum("ho,ohk->hk", share, encoding.value)
    clipped = CLIP * jnp.tanh(jnp.einsum("hk,ohk->o", glimpse, encoding.pointer))
    return jnp.where(ready, clipped, _NEVER)


def log_prob(
    encoding: Projections, positions: jax.Array, senders: jax.Array, receivers: jax.Array
) -> jax.Array:
    """float32[S]: log-probabilities of orders, whose steps are all computed side by side.

    Args:
      encoding: of the graph.
      positions: int32[S, O], of each op in S orders; O or more for padding.
      senders, receivers: int32[E], the edges; O for padding.
    """
    positions = jnp.asarray(positions)
    count, num_ops = positions.shape
    since = jax.vmap(schedulable_since, (0, None, None))(positions, senders, receivers)
    op_at = jax.vmap(_op_at)(positions)

    def of_step(row):
        sample, step = jnp.minimum(row // num_ops, count - 1), row % num_ops
        position, ops = positions[sample], op_at[sample]
        ready = (since[sample] <= step) & (step <= position) & (position < num_ops)
        last = jnp.where(step > 0, ops[step - 1], num_ops)
        first = jnp.where(step > 0, ops[0], num_ops)
        found = jax.nn.log_softmax(logits(encoding, ready, last, first))
        return found.at[ops[step]].get(mode="fill", fill_value=0.0)

    block = min(BLOCK, count * num_ops)
    rows = jnp.arange(-(-count * num_ops // block) * block).reshape(-1, block)
    found = jax.lax.map(jax.checkpoint(jax.vmap(of_step)), rows)
    return jnp.sum(found.ravel()[: count * num_ops].reshape(count, num_ops), axis=1)


def _op_at(position: jax.Array) -> jax.Array:
    """int32[O]: the op at each step of an order; O after the last."""
    num_ops = len(position)
    nothing = jnp.full(num_ops, num_ops, jnp.int32)
    return nothing.at[position].set(jnp.arange(num_ops, dtype=jnp.int32), mode="drop")


def sample_positions(
    key: chex.PRNGKey, encoding: Projections, relations: Relations, *, greedy: bool = False
) -> jax.Array:
    """int32[O]: positions of ops in an order that is drawn, or the most likely op at each step.

    Ties go to the lowest op; padding gets position O. Takes O(E + O d) a step.
    """
    senders, receivers, real = relations.senders, relations.receivers, relations.real
    num_ops = len(real)
    waiting = jnp.zeros(num_ops, jnp.int32).at[receivers].add(1, mode="drop")

    def run(carry, step):
        waiting, position, last, first = carry
        ready = (waiting == 0) & (position == num_ops) & real
        noise = 0.0 if greedy else jax.random.gumbel(jax.random.fold_in(key, step), (num_ops,))
        op = jnp.argmax(logits(encoding, ready, last, first) + noise).astype(jnp.int32)
        op = jnp.where(jnp.any(ready), op, num_ops)
        position = position.at[op].set(step, mode="drop")
        done = (senders == op) & (op < num_ops)
        waiting = waiting.at[receivers].add(-done.astype(jnp.int32), mode="drop")
        return (waiting, position, op, jnp.where(step == 0, op, first)), None

    none = jnp.int32(num_ops)
    start = (waiting, jnp.full(num_ops, num_ops, jnp.int32), none, none)
    return jax.lax.scan(run, start, jnp.arange(num_ops, dtype=jnp.int32))[0][1]

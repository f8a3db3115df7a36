"""Attention between ops that are related in one way: by an edge, or by a path or none.

Ops without any such neighbour get zeros, not NaN.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import jraph

BLOCK = 1024
"""Queries at a time in graphs with more ops, so that memory grows with O, not with its square."""
_NEVER = -1e30


def dense_attention(
    query: jax.Array, key: jax.Array, value: jax.Array, code: jax.Array, which: int | None
) -> jax.Array:
    """float[O, H, V]: scaled dot-product attention over pairs of one code.

    Args:
      query, key: float[O, H, K]. value: float[O, H, V].
      code: uint8[O, O]; op i attends to the ops j with ``code[i, j] == which``. None: with any
        code but 0.
      which: see code.
    """

    def attend(rows):
        query, code = rows
        allowed = (code == which if which is not None else code > 0)[None]
        scores = jnp.einsum("qhk,ohk->hqo", query, key) / jnp.sqrt(float(query.shape[-1]))
        scores = jnp.where(allowed, scores.astype(jnp.float32), _NEVER)
        top = jax.lax.stop_gradient(jnp.max(scores, axis=-1, keepdims=True))
        weight = jnp.where(allowed, jnp.exp(scores - top), 0.0)
        total = jnp.maximum(jnp.sum(weight, axis=-1, keepdims=True), 1e-30)
        return jnp.einsum("hqo,ohv->qhv", (weight / total).astype(value.dtype), value)

    num_ops = len(query)
    if num_ops <= BLOCK:
        return attend((query, code))
    blocks = -(-num_ops // BLOCK)
    pad = blocks * BLOCK - num_ops
    split = [
        jnp.pad(rows, [(0, pad)] + [(0, 0)] * (rows.ndim - 1)).reshape(
            blocks, BLOCK, *rows.shape[1:]
        )
        for rows in (query, code)
    ]
    found = jax.lax.map(jax.checkpoint(attend), tuple(split))
    return found.reshape(blocks * BLOCK, *found.shape[2:])[:num_ops]


def dot_scores(query: jax.Array, key: jax.Array, senders, receivers) -> jax.Array:
    """float[E, H]: scaled dot products of the receivers' queries and the senders' keys."""
    products = _rows(query, receivers) * _rows(key, senders)
    return jnp.sum(products, axis=-1) / jnp.sqrt(float(query.shape[-1]))


def additive_scores(query: jax.Array, key: jax.Array, senders, receivers) -> jax.Array:
    """float[E, H]: of graph attention networks (Velickovic et al. 2018, eq. 3); queries and keys
    are float[O, H, 1], the products with either half of their vector a."""
    return nn.leaky_relu(_rows(query, receivers)[..., 0] + _rows(key, senders)[..., 0], 0.2)


def edge_attention(
    scores: jax.Array, value: jax.Array, senders: jax.Array, receivers: jax.Array, used: jax.Array
) -> jax.Array:
    """float[O, H, V]: attention over edges.

    Args:
      scores: float[E, H]. value: float[O, H, V].
      senders, receivers: int32[E]; O or more for padding.
      used: bool[E], which edges take part.
    """
    num_ops = len(value)
    spare = num_ops  # the receiver of the edges that take no part
    receivers = jnp.where(used, receivers, spare)
    scores = jnp.where(used[:, None], scores.astype(jnp.float32), 0.0)
    share = jraph.segment_softmax(scores, receivers, num_ops + 1).astype(value.dtype)
    parts = share[..., None] * _rows(value, senders)
    return jax.ops.segment_sum(parts, receivers, num_ops + 1)[:num_ops]


def _rows(values: jax.Array, index: jax.Array) -> jax.Array:
    return values.at[index].get(mode="fill", fill_value=0)

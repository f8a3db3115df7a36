"""Recommenders: embeddings of many fields, and their interactions."""

import flax.linen as nn
import jax.numpy as jnp

from regal_jax.datasets.zoo.recipes.flax_families import Family, tokens
from regal_jax.datasets.zoo.recipes.flax_layers import MLP


class DLRM(nn.Module):
    """Embeddings of many fields, interacting in pairs with dense features."""

    fields: int
    width: int = 64
    deep: int = 3

    @nn.compact
    def __call__(self, dense, ids):
        bottom = MLP((512, 256, self.width))(dense)
        vectors = [nn.Embed(10_000, self.width)(ids[:, i]) for i in range(self.fields)]
        stacked = jnp.stack([bottom, *vectors], axis=1)
        rows, columns = jnp.tril_indices(self.fields + 1, -1)
        pairs = (stacked @ stacked.swapaxes(1, 2))[:, rows, columns]
        return MLP((*(512,) * self.deep, 1))(jnp.concatenate([bottom, pairs], axis=-1))


class DeepFM(nn.Module):
    """A factorisation machine and a deep network side by side."""

    fields: int
    width: int = 32

    @nn.compact
    def __call__(self, dense, ids):
        vectors = [nn.Embed(10_000, self.width)(ids[:, i]) for i in range(self.fields)]
        linear = sum(nn.Embed(10_000, 1)(ids[:, i]) for i in range(self.fields))
        total, squares = sum(vectors), sum(v * v for v in vectors)
        machine = 0.5 * jnp.sum(total * total - squares, axis=-1, keepdims=True)
        x = jnp.concatenate([dense, *vectors], axis=-1)
        return nn.sigmoid(linear + machine + MLP((400, 400, 1))(x) + nn.Dense(1)(x))


def _recommenders(*fields: int) -> list[dict]:
    return [{"fields": count, "inputs": ((256, 13), tokens(256, count))} for count in fields]


FAMILIES = (
    Family("dlrm", DLRM, (), _recommenders(4, 8)),
    Family("deepfm", DeepFM, (), _recommenders(4, 16)),
)  # fmt: skip

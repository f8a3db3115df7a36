"""Layers that several of the zoo's Flax models are made of."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

Activation = Callable[[jax.Array], jax.Array]


def block(module: type[nn.Module], remat: bool) -> Any:
    """The module's class, its activations recomputed in the backward pass if ``remat``."""
    return nn.remat(module) if remat else module


def identity(x: jax.Array) -> jax.Array:
    return x


def downsample(x: jax.Array) -> jax.Array:
    """Max-pooling by 2."""
    return nn.max_pool(x, (2, 2), strides=(2, 2), padding="SAME")


def upsample(x: jax.Array, factor: int = 2) -> jax.Array:
    """Each pixel repeated."""
    return jnp.repeat(jnp.repeat(x, factor, axis=1), factor, axis=2)


class Norm(nn.Module):
    """Batch normalisation that trains where its statistics are mutable."""

    @nn.compact
    def __call__(self, x):
        frozen = not self.is_mutable_collection("batch_stats")
        return nn.BatchNorm(use_running_average=frozen)(x)


class ConvNorm(nn.Module):
    """Convolution, normalisation, activation."""

    features: int
    kernel: int = 3
    strides: int = 1
    groups: int = 1
    dilation: int = 1
    activation: Activation = nn.relu

    @nn.compact
    def __call__(self, x):
        x = nn.Conv(
            self.features,
            (self.kernel, self.kernel),
            strides=self.strides,
            feature_group_count=self.groups,
            kernel_dilation=self.dilation,
            use_bias=False,
        )(x)
        return self.activation(Norm()(x))


class SeparableConv(nn.Module):
    """A depthwise and a pointwise convolution."""

    features: int
    kernel: int = 3
    strides: int = 1
    dilation: int = 1

    @nn.compact
    def __call__(self, x):
        depthwise = ConvNorm(
            x.shape[-1], self.kernel, self.strides, x.shape[-1], self.dilation, identity
        )
        return ConvNorm(self.features, 1, activation=identity)(depthwise(nn.relu(x)))


class SqueezeExcite(nn.Module):
    """Channels weighted by a small network of their means."""

    ratio: int = 4

    @nn.compact
    def __call__(self, x):
        means = x.mean(axis=(1, 2), keepdims=True)
        hidden = nn.silu(nn.Dense(max(8, x.shape[-1] // self.ratio))(means))
        return x * nn.sigmoid(nn.Dense(x.shape[-1])(hidden))


class MLP(nn.Module):
    """Dense layers of given widths, activated between."""

    widths: tuple[int, ...]
    activation: Activation = nn.relu

    @nn.compact
    def __call__(self, x):
        for width in self.widths[:-1]:
            x = self.activation(nn.Dense(width)(x))
        return nn.Dense(self.widths[-1])(x)


class Classifier(nn.Module):
    """Logits from the mean over space."""

    classes: int = 1000

    @nn.compact
    def __call__(self, x):
        return nn.Dense(self.classes)(x.mean(axis=tuple(range(1, x.ndim - 1))))


class Attention(nn.Module):
    """Multi-head attention of x to a context (by default to itself)."""

    heads: int = 8
    causal: bool = False

    @nn.compact
    def __call__(self, x, context=None):
        context = x if context is None else context
        width = x.shape[-1] // self.heads
        query = nn.DenseGeneral((self.heads, width))(x)
        key = nn.DenseGeneral((self.heads, width))(context)
        value = nn.DenseGeneral((self.heads, width))(context)
        scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / width**0.5
        if self.causal:
            mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
            scores = jnp.where(mask, scores, -1e9)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores), value)
        return nn.DenseGeneral(x.shape[-1], axis=(-2, -1))(mixed)


class FeedForward(nn.Module):
    """A GELU layer four times as wide, and back."""

    expansion: int = 4

    @nn.compact
    def __call__(self, x):
        return MLP((self.expansion * x.shape[-1], x.shape[-1]), nn.gelu)(x)

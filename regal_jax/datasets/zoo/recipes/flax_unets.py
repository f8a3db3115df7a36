"""Encoders and decoders with connections across: U-Nets, hourglasses, feature pyramids."""

import flax.linen as nn
import jax.numpy as jnp

from regal_jax.datasets.zoo.recipes.flax_convolutional import BasicBlock
from regal_jax.datasets.zoo.recipes.flax_families import Family
from regal_jax.datasets.zoo.recipes.flax_layers import (
    Attention,
    ConvNorm,
    SeparableConv,
    block,
    downsample,
    upsample,
)
from regal_jax.datasets.zoo.recipes.recipe import each

IMAGES = ((8, 128, 128, 3),)


class DoubleConv(nn.Module):
    """Two convolutions of inputs joined along channels."""

    features: int

    @nn.compact
    def __call__(self, *parts):
        x = jnp.concatenate(parts, axis=-1) if len(parts) > 1 else parts[0]
        return ConvNorm(self.features)(ConvNorm(self.features)(x))


class UNet(nn.Module):
    """Down, up, and a skip at each level."""

    levels: int
    width: int = 32
    remat: bool = False

    @nn.compact
    def __call__(self, x):
        conv = block(DoubleConv, self.remat)
        skips = []
        for level in range(self.levels):
            x = conv(self.width * 2**level)(x)
            skips.append(x)
            x = downsample(x)
        x = conv(self.width * 2**self.levels)(x)
        for level in reversed(range(self.levels)):
            x = nn.ConvTranspose(self.width * 2**level, (2, 2), strides=(2, 2))(x)
            x = conv(self.width * 2**level)(skips[level], x)
        return [nn.Conv(1, (1, 1))(x)]


class UNetPlusPlus(nn.Module):
    """A triangle of nested decoders, densely connected."""

    levels: int
    width: int = 32
    remat: bool = False

    @nn.compact
    def __call__(self, x):
        conv = block(DoubleConv, self.remat)
        nodes = {}
        for level in range(self.levels + 1):
            nodes[level, 0] = conv(self.width * 2**level)(x)
            x = downsample(nodes[level, 0])
            for column in range(1, level + 1):
                row = level - column
                before = [nodes[row, i] for i in range(column)]
                nodes[row, column] = conv(self.width * 2**row)(
                    *before, upsample(nodes[row + 1, column - 1])
                )
        return [nn.Conv(1, (1, 1))(nodes[0, column]) for column in range(1, self.levels + 1)]


class UNet3Plus(nn.Module):
    """Every decoder level reads every scale, brought to its own size."""

    levels: int = 3
    width: int = 32

    @nn.compact
    def __call__(self, x):
        scales = []
        for level in range(self.levels + 1):
            scales.append(DoubleConv(self.width * 2**level)(x))
            x = downsample(scales[-1])
        for level in reversed(range(self.levels)):
            parts = [ConvNorm(self.width)(self._resized(y, scales[level])) for y in scales]
            scales[level] = ConvNorm(self.width * len(parts))(jnp.concatenate(parts, axis=-1))
        return [nn.Conv(1, (1, 1))(y) for y in scales]

    def _resized(self, x, like):
        if x.shape[1] < like.shape[1]:
            return upsample(x, like.shape[1] // x.shape[1])
        ratio = x.shape[1] // like.shape[1]
        return nn.max_pool(x, (ratio, ratio), (ratio, ratio)) if ratio > 1 else x


class TimeBlock(nn.Module):
    """A residual block with group norms, shifted by the time's embedding."""

    features: int

    @nn.compact
    def __call__(self, x, time):
        y = nn.Conv(self.features, (3, 3))(nn.silu(nn.GroupNorm(8)(x)))
        y = y + nn.Dense(self.features)(nn.silu(time))[:, None, None]
        y = nn.Conv(self.features, (3, 3))(nn.silu(nn.GroupNorm(8)(y)))
        return y + (x if x.shape == y.shape else nn.Conv(self.features, (1, 1))(x))


class PixelAttention(nn.Module):
    """Self-attention over pixels."""

    @nn.compact
    def __call__(self, x):
        flat = x.reshape(x.shape[0], -1, x.shape[-1])
        flat = flat + Attention(4)(nn.LayerNorm()(flat))
        return flat.reshape(x.shape)


def time_embedding(time, width):
    """Sines and cosines of a time in geometric frequencies."""
    frequencies = jnp.exp(-jnp.arange(width // 2) * (9.2 / (width // 2)))
    angles = time[:, None] * frequencies
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


class DiffusionUNet(nn.Module):
    """A denoiser: residual blocks with time embeddings, attention at the lower levels."""

    levels: int = 3
    blocks: int = 2
    width: int = 64
    remat: bool = False

    @nn.compact
    def __call__(self, x, time):
        residual = block(TimeBlock, self.remat)
        time = nn.Dense(4 * self.width)(time_embedding(time, self.width))
        time = nn.Dense(4 * self.width)(nn.silu(time))
        x = nn.Conv(self.width, (3, 3))(x)
        skips = [x]
        for level in range(self.levels):
            for _ in range(self.blocks):
                x = residual(self.width * 2**level)(x, time)
                x = PixelAttention()(x) if level else x
                skips.append(x)
            if level + 1 < self.levels:
                x = nn.Conv(x.shape[-1], (3, 3), strides=2)(x)
                skips.append(x)
        x = residual(x.shape[-1])(PixelAttention()(residual(x.shape[-1])(x, time)), time)
        for level in reversed(range(self.levels)):
            for _ in range(self.blocks + 1):
                joined = jnp.concatenate([x, skips.pop()], axis=-1)
                x = residual(self.width * 2**level)(joined, time)
                x = PixelAttention()(x) if level else x
            x = nn.Conv(x.shape[-1], (3, 3))(upsample(x)) if level else x
        return nn.Conv(3, (3, 3))(nn.silu(nn.GroupNorm(8)(x)))


class Hourglass(nn.Module):
    """Recursion down to the lowest scale, a branch aside at each."""

    depth: int
    features: int

    @nn.compact
    def __call__(self, x):
        aside = BasicBlock(self.features)(x)
        low = BasicBlock(self.features)(downsample(x))
        low = Hourglass(self.depth - 1, self.features)(low) if self.depth > 1 else low
        return aside + upsample(BasicBlock(self.features)(low))


class StackedHourglass(nn.Module):
    """Hourglasses in sequence, each with its heat maps fed back."""

    stacks: int
    depth: int = 4
    features: int = 128
    remat: bool = False

    @nn.compact
    def __call__(self, x):
        x, maps = ConvNorm(self.features, 7, 2)(x), []
        for _ in range(self.stacks):
            y = ConvNorm(self.features, 1)(
                block(Hourglass, self.remat)(self.depth, self.features)(x)
            )
            maps.append(nn.Conv(16, (1, 1))(y))
            x = x + nn.Conv(self.features, (1, 1))(y) + nn.Conv(self.features, (1, 1))(maps[-1])
        return maps


class BiFPNLayer(nn.Module):
    """Top-down, then bottom-up, each node a weighted sum of two or three."""

    features: int

    @nn.compact
    def __call__(self, scales):
        top_down = [scales[-1]]
        for x in reversed(scales[:-1]):
            top_down.insert(0, self._node(x, upsample(top_down[0])))
        merged = [top_down[0]]
        for x, y in zip(scales[1:], top_down[1:], strict=True):
            merged.append(self._node(x, y, downsample(merged[-1])))
        return merged

    def _node(self, *parts):
        weights = [nn.Dense(1, use_bias=False)(part) for part in parts]
        total = sum(jnp.exp(w.mean()) for w in weights)
        mixed = [jnp.exp(w.mean()) / total * p for w, p in zip(weights, parts, strict=True)]
        return SeparableConv(self.features)(sum(mixed))


class Detector(nn.Module):
    """A backbone, a bidirectional feature pyramid, and class and box heads at every scale."""

    layers: int
    scales: int = 4
    features: int = 64
    remat: bool = False

    @nn.compact
    def __call__(self, x):
        x, pyramid = ConvNorm(32, 3, 2)(x), []
        for level in range(self.scales):
            x = BasicBlock(64 * 2 ** min(level, 3), 2)(x)
            pyramid.append(ConvNorm(self.features, 1)(x))
        for _ in range(self.layers):
            pyramid = block(BiFPNLayer, self.remat)(self.features)(pyramid)
        return [self._head(y, outputs) for y in pyramid for outputs in (36, 9 * 80)]

    def _head(self, x, outputs):
        return nn.Conv(outputs, (1, 1))(SeparableConv(self.features)(x))


_NOISY = ((8, 64, 64, 3), (8,))

FAMILIES = (
    Family("unet", UNet, IMAGES, each("levels", 2, 3)),
    Family("unet_plus_plus", UNetPlusPlus, IMAGES, each("levels", 2, 3)),
    Family("unet_3_plus", UNet3Plus, IMAGES, each("levels", 2, 3)),
    Family("diffusion_unet", DiffusionUNet, _NOISY, [{"levels": 2, "blocks": 1}, {"levels": 2}]),
    Family("hourglass", StackedHourglass, ((8, 256, 256, 3),), [{"stacks": 1, "depth": 2},
                                                                {"stacks": 1}]),
    Family("bifpn_detector", Detector, ((8, 512, 512, 3),), [{"layers": 1, "scales": 3},
                                                             {"layers": 2}]),
)  # fmt: skip

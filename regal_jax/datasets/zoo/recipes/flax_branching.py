"""Networks of parallel branches: Inception, SqueezeNet, FractalNet, HRNet, shake, SlowFast."""

import flax.linen as nn
import jax.numpy as jnp

from regal_jax.datasets.zoo.recipes.flax_convolutional import BasicBlock
from regal_jax.datasets.zoo.recipes.flax_families import Family
from regal_jax.datasets.zoo.recipes.flax_layers import (
    Classifier,
    ConvNorm,
    Norm,
    block,
    downsample,
    identity,
    upsample,
)
from regal_jax.datasets.zoo.recipes.recipe import each

IMAGES = ((16, 128, 128, 3),)


class InceptionBlock(nn.Module):
    """Branches of 1x1, 3x3 and 5x5 convolutions and of pooling."""

    features: int

    @nn.compact
    def __call__(self, x):
        narrow, wide = self.features // 2, self.features
        pooled = nn.avg_pool(x, (3, 3), padding="SAME")
        branches = [
            ConvNorm(wide, 1)(x),
            ConvNorm(wide, 3)(ConvNorm(narrow, 1)(x)),
            self._wide(ConvNorm(narrow, 1)(x)),
            ConvNorm(narrow, 1)(pooled),
        ]
        return jnp.concatenate(branches, axis=-1)

    def _wide(self, x):
        return ConvNorm(self.features // 2, 5)(x)


class Inception(nn.Module):
    """Stages of Inception blocks."""

    stages: tuple[int, ...]
    remat: bool = False

    @nn.compact
    def __call__(self, x):
        x = downsample(ConvNorm(192)(ConvNorm(64, 7, 2)(x)))
        for stage, count in enumerate(self.stages):
            for _ in range(count):
                x = self._block(x, 64 * (stage + 1))
            x = downsample(x)
        return [Classifier()(x)]

    def _block(self, x, features):
        return block(InceptionBlock, self.remat)(features)(x)


class SqueezeNet(nn.Module):
    """Fire modules: squeezed, then expanded by two branches."""

    fires: tuple[int, ...]

    @nn.compact
    def __call__(self, x):
        x = downsample(nn.relu(nn.Conv(64, (3, 3), 2)(x)))
        for index, features in enumerate(self.fires):
            squeezed = nn.relu(nn.Conv(features, (1, 1))(x))
            sides = [nn.relu(nn.Conv(4 * features, (size, size))(squeezed)) for size in (1, 3)]
            x = jnp.concatenate(sides, axis=-1)
            x = downsample(x) if index % 3 == 2 else x
        return Classifier()(nn.relu(nn.Conv(1000, (1, 1))(x)))


class Fractal(nn.Module):
    """One convolution beside two fractals of a lower order in sequence."""

    order: int
    features: int

    @nn.compact
    def __call__(self, x):
        short = ConvNorm(self.features)(x)
        if self.order == 1:
            return [short]
        half = Fractal(self.order - 1, self.features)(x)
        joined = sum(half) / len(half)
        return [short, *Fractal(self.order - 1, self.features)(joined)]


class FractalNet(nn.Module):
    """Fractal blocks; the columns of each are averaged."""

    order: int
    blocks: int

    @nn.compact
    def __call__(self, x):
        for index in range(self.blocks):
            columns = Fractal(self.order, 64 * 2 ** min(index, 3))(x)
            x = downsample(sum(columns) / len(columns))
        return Classifier()(x)


class ExchangeUnit(nn.Module):
    """Parallel resolutions, each summed from all others, brought to its own size."""

    @nn.compact
    def __call__(self, scales):
        for _ in range(2):
            scales = [BasicBlock(x.shape[-1])(x) for x in scales]
        return [nn.relu(self._gathered(scales, to)) for to in range(len(scales))]

    def _gathered(self, scales, to):
        features = scales[to].shape[-1]
        parts = [scales[to]]
        for source, x in enumerate(scales):
            if source > to:
                x = ConvNorm(features, 1, activation=identity)(x)
                parts.append(upsample(x, 2 ** (source - to)))
            elif source < to:
                for _ in range(to - source):
                    x = ConvNorm(features, 3, 2, activation=identity)(x)
                parts.append(x)
        return sum(parts)


class HRNet(nn.Module):
    """Resolutions kept in parallel and exchanged; one more each stage."""

    modules: tuple[int, ...]
    remat: bool = False

    @nn.compact
    def __call__(self, x):
        scales = [ConvNorm(32, 3, 2)(ConvNorm(64, 3, 2)(x))]
        for count in self.modules:
            scales.append(ConvNorm(2 * scales[-1].shape[-1], 3, 2)(scales[-1]))
            for _ in range(count):
                scales = block(ExchangeUnit, self.remat)()(scales)
        parts = [upsample(x, 2**index) for index, x in enumerate(scales)]
        return nn.Conv(19, (1, 1))(jnp.concatenate(parts, axis=-1))


class ShakeBlock(nn.Module):
    """Several residual branches, summed with learned weights."""

    features: int
    branches: int

    @nn.compact
    def __call__(self, x):
        weights = nn.softmax(self.param("weights", nn.initializers.zeros, (self.branches,)))
        outputs = []
        for index in range(self.branches):
            y = ConvNorm(self.features)(x)
            y = ConvNorm(self.features, 3 + 2 * (index % 2), activation=identity)(y)
            outputs.append(weights[index] * y)
        return nn.relu(nn.Conv(self.features, (1, 1))(x) + sum(outputs))


class ShakeNet(nn.Module):
    """Stages of blocks with several residual branches."""

    branches: int
    remat: bool = False

    @nn.compact
    def __call__(self, x):
        x = ConvNorm(32, 3, 2)(x)
        for stage in range(3):
            for _ in range(2):
                x = block(ShakeBlock, self.remat)(64 * 2**stage, self.branches)(x)
            x = downsample(x)
        return Classifier()(x)


class SlowFast(nn.Module):
    """Two pathways over video at two frame rates, with lateral connections."""

    stages: tuple[int, ...]

    @nn.compact
    def __call__(self, video):
        slow = self._stem(video[:, ::8], 64)
        fast = self._stem(video, 8)
        for stage, count in enumerate(self.stages):
            lateral = nn.Conv(2 * fast.shape[-1], (5, 1, 1), strides=(8, 1, 1))(fast)
            slow = jnp.concatenate([slow, lateral], axis=-1)
            for index in range(count):
                strides = 2 if stage and index == 0 else 1
                slow = self._block(slow, 64 * 2**stage, strides)
                fast = self._block(fast, 8 * 2**stage, strides)
        pooled = [x.mean(axis=(1, 2, 3)) for x in (slow, fast)]
        return nn.Dense(400)(jnp.concatenate(pooled, axis=-1))

    def _stem(self, x, features):
        x = nn.relu(Norm()(nn.Conv(features, (1, 7, 7), strides=(1, 2, 2))(x)))
        return nn.max_pool(x, (1, 3, 3), strides=(1, 2, 2), padding="SAME")

    def _block(self, x, features, strides):
        y = nn.relu(Norm()(nn.Conv(features, (3, 1, 1))(x)))
        y = nn.relu(Norm()(nn.Conv(features, (1, 3, 3), strides=(1, strides, strides))(y)))
        y = Norm()(nn.Conv(4 * features, (1, 1, 1))(y))
        if x.shape != y.shape:
            x = Norm()(nn.Conv(4 * features, (1, 1, 1), strides=(1, strides, strides))(x))
        return nn.relu(x + y)


class Columns(nn.Module):
    """Independent columns of convolutions over one image, joined at every few layers."""

    columns: int
    layers: int
    joined_every: int

    @nn.compact
    def __call__(self, x):
        states = [ConvNorm(32, 3 + 2 * (i % 3), 2)(x) for i in range(self.columns)]
        for layer in range(self.layers):
            states = [ConvNorm(64)(state) for state in states]
            if layer % self.joined_every == self.joined_every - 1:
                states = self._joined(states)
        return Classifier()(jnp.concatenate(states, axis=-1))

    def _joined(self, states):
        common = nn.Conv(64, (1, 1))(jnp.concatenate(states, axis=-1))
        return [nn.relu(state + common) for state in states]


FAMILIES = (
    Family("inception", Inception, IMAGES, each("stages", (1, 2), (2, 5, 2))),
    Family("squeezenet", SqueezeNet, IMAGES, each("fires", (16, 16, 32),
                                                  (16, 16, 32, 32, 48, 48, 64, 64))),
    Family("fractalnet", FractalNet, IMAGES, [{"order": 2, "blocks": 2},
                                              {"order": 3, "blocks": 3}]),
    Family("hrnet", HRNet, ((8, 256, 256, 3),), each("modules", (1, 1), (1, 1, 1))),
    Family("shakenet", ShakeNet, IMAGES, each("branches", 2, 4)),
    Family("slowfast", SlowFast, ((4, 32, 128, 128, 3),), each("stages", (1, 1), (1, 1, 1, 1))),
    Family("columns", Columns, IMAGES, [
        {"columns": 2, "layers": 4, "joined_every": 2},
        {"columns": 4, "layers": 6, "joined_every": 3},
    ]),
)  # fmt: skip

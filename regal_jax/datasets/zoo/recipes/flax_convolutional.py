"""Convolutional networks in stages: residual, dense, separable, dilated."""

from functools import partial

import flax.linen as nn
import jax.numpy as jnp

from regal_jax.datasets.zoo.recipes.flax_families import Family
from regal_jax.datasets.zoo.recipes.flax_layers import (
    Classifier,
    ConvNorm,
    Norm,
    SqueezeExcite,
    block,
    downsample,
    identity,
)
from regal_jax.datasets.zoo.recipes.recipe import each

IMAGES = ((16, 128, 128, 3),)
LARGE = ((16, 224, 224, 3),)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut (ResNet v1)."""

    features: int
    strides: int = 1

    @nn.compact
    def __call__(self, x):
        y = ConvNorm(self.features, strides=self.strides)(x)
        y = ConvNorm(self.features, activation=identity)(y)
        if x.shape != y.shape:
            x = ConvNorm(self.features, 1, self.strides, activation=identity)(x)
        return nn.relu(x + y)


class Bottleneck(nn.Module):
    """1x1, 3x3 in 32 groups, and 1x1 convolutions, and a shortcut (ResNeXt)."""

    features: int
    strides: int = 1

    @nn.compact
    def __call__(self, x):
        y = ConvNorm(self.features, 1)(x)
        y = ConvNorm(self.features, 3, self.strides, 32)(y)
        y = ConvNorm(4 * self.features, 1, activation=identity)(y)
        if x.shape != y.shape:
            x = ConvNorm(4 * self.features, 1, self.strides, activation=identity)(x)
        return nn.relu(x + y)


class PreActivation(nn.Module):
    """Normalisation and activation before each convolution (ResNet v2)."""

    features: int
    strides: int = 1

    @nn.compact
    def __call__(self, x):
        y = nn.relu(Norm()(x))
        if x.shape[-1] != self.features or self.strides != 1:
            x = nn.Conv(self.features, (1, 1), self.strides, use_bias=False)(y)
        y = nn.Conv(self.features, (3, 3), self.strides, use_bias=False)(y)
        return x + nn.Conv(self.features, (3, 3), use_bias=False)(nn.relu(Norm()(y)))


class ResNet(nn.Module):
    """A residual network of four stages."""

    kind: type[nn.Module]
    stages: tuple[int, ...]
    width: int = 64
    remat: bool = False

    @nn.compact
    def __call__(self, x):
        x = downsample(ConvNorm(self.width, 7, 2)(x))
        for stage, count in enumerate(self.stages):
            for index in range(count):
                strides = 2 if stage and index == 0 else 1
                x = block(self.kind, self.remat)(self.width * 2**stage, strides)(x)
        return Classifier()(x)


class VGG(nn.Module):
    """Plain 3x3 convolutions and three dense layers."""

    stages: tuple[int, ...]

    @nn.compact
    def __call__(self, x):
        for stage, count in enumerate(self.stages):
            for _ in range(count):
                x = ConvNorm(min(64 * 2**stage, 512))(x)
            x = downsample(x)
        x = x.reshape(x.shape[0], -1)
        for _ in range(2):
            x = nn.relu(nn.Dense(4096)(x))
        return nn.Dense(1000)(x)


class DenseLayer(nn.Module):
    """A bottleneck that reads all features before it."""

    growth: int

    @nn.compact
    def __call__(self, features):
        x = nn.relu(Norm()(jnp.concatenate(features, axis=-1)))
        x = nn.Conv(4 * self.growth, (1, 1), use_bias=False)(x)
        return nn.Conv(self.growth, (3, 3), use_bias=False)(nn.relu(Norm()(x)))


class DenseNet(nn.Module):
    """Each layer of a stage reads the outputs of all layers before it."""

    stages: tuple[int, ...]
    growth: int = 32
    remat: bool = False

    @nn.compact
    def __call__(self, x):
        x = downsample(ConvNorm(2 * self.growth, 7, 2)(x))
        for stage, count in enumerate(self.stages):
            features = [x]
            for _ in range(count):
                features.append(block(DenseLayer, self.remat)(self.growth)(features))
            x = nn.relu(Norm()(jnp.concatenate(features, axis=-1)))
            if stage + 1 < len(self.stages):
                x = nn.Conv(x.shape[-1] // 2, (1, 1), use_bias=False)(x)
                x = nn.avg_pool(x, (2, 2), (2, 2))
        return Classifier()(x)


class InvertedResidual(nn.Module):
    """Expand, depthwise convolution, (excite,) project."""

    features: int
    strides: int = 1
    expansion: int = 6
    kernel: int = 3
    excite: bool = False

    @nn.compact
    def __call__(self, x):
        hidden = self.expansion * x.shape[-1]
        y = ConvNorm(hidden, 1, activation=nn.silu)(x) if self.expansion > 1 else x
        y = ConvNorm(hidden, self.kernel, self.strides, hidden, activation=nn.silu)(y)
        y = SqueezeExcite(4 * self.expansion)(y) if self.excite else y
        y = ConvNorm(self.features, 1, activation=identity)(y)
        return x + y if x.shape == y.shape else y


class MobileNet(nn.Module):
    """Inverted residuals in seven stages, as in MobileNetV2 and EfficientNet."""

    depth: float = 1.0
    width: float = 1.0
    excite: bool = False
    remat: bool = False

    @nn.compact
    def __call__(self, x):
        x = ConvNorm(int(32 * self.width), 3, 2, activation=nn.silu)(x)
        for expansion, features, count, strides, kernel in _MOBILE_STAGES:
            for index in range(max(1, round(count * self.depth))):
                x = block(InvertedResidual, self.remat)(
                    8 * max(1, round(features * self.width / 8)),
                    strides if index == 0 else 1,
                    expansion,
                    kernel if self.excite else 3,
                    self.excite,
                )(x)
        return Classifier()(ConvNorm(int(1280 * self.width), 1, activation=nn.silu)(x))


_MOBILE_STAGES = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
"""Expansion, features, blocks, strides, kernel."""


class ConvNeXtBlock(nn.Module):
    """A depthwise 7x7 convolution and a dense block, with layer scale."""

    @nn.compact
    def __call__(self, x):
        width = x.shape[-1]
        y = nn.LayerNorm()(nn.Conv(width, (7, 7), feature_group_count=width)(x))
        y = nn.Dense(width)(nn.gelu(nn.Dense(4 * width)(y)))
        return x + y * self.param("scale", nn.initializers.constant(1e-6), (width,))


class ConvNeXt(nn.Module):
    """Four stages of depthwise blocks."""

    stages: tuple[int, ...]
    width: int = 96
    remat: bool = False

    @nn.compact
    def __call__(self, x):
        for stage, count in enumerate(self.stages):
            size = 2 if stage else 4
            x = nn.LayerNorm()(x) if stage else x
            x = nn.Conv(self.width * 2**stage, (size, size), size)(x)
            for _ in range(count):
                x = block(ConvNeXtBlock, self.remat)()(x)
        return Classifier()(nn.LayerNorm()(x))


class ShuffleUnit(nn.Module):
    """Two branches whose channels are shuffled."""

    @nn.compact
    def __call__(self, x):
        left, right = jnp.split(x, 2, axis=-1)
        width = right.shape[-1]
        right = ConvNorm(width, 3, 1, width, activation=identity)(ConvNorm(width, 1)(right))
        mixed = jnp.stack([left, ConvNorm(width, 1)(right)], axis=-1)
        return mixed.reshape(x.shape)


class ShuffleNet(nn.Module):
    """Channels split, half of them transformed, then shuffled."""

    stages: tuple[int, ...]
    width: int = 128

    @nn.compact
    def __call__(self, x):
        x = downsample(ConvNorm(24, 3, 2)(x))
        for stage, count in enumerate(self.stages):
            x = ConvNorm(self.width * 2**stage, 3, 2)(x)
            for _ in range(count):
                x = ShuffleUnit()(x)
        return Classifier()(ConvNorm(1024, 1)(x))


class WaveNetLayer(nn.Module):
    """A gated dilated convolution; gives what goes on and what is skipped to the end."""

    dilation: int

    @nn.compact
    def __call__(self, x):
        width = x.shape[-1]
        conv = partial(nn.Conv, width, (2,), kernel_dilation=self.dilation, padding="CAUSAL")
        hidden = nn.tanh(conv()(x)) * nn.sigmoid(conv()(x))
        return x + nn.Dense(width)(hidden), nn.Dense(256)(hidden)


class WaveNet(nn.Module):
    """Dilated causal convolutions whose skips are summed at the end."""

    stacks: int

    @nn.compact
    def __call__(self, x):
        x = nn.Conv(64, (2,), padding="CAUSAL")(x)
        skips = []
        for index in range(10 * self.stacks):
            x, skip = WaveNetLayer(2 ** (index % 10))(x)
            skips.append(skip)
        return nn.Dense(256)(nn.relu(nn.Dense(256)(nn.relu(sum(skips)))))


def _nets(kind: type[nn.Module], *stages: tuple[int, ...]) -> list[dict]:
    return each("stages", *stages, kind=kind)


FAMILIES = (
    Family("resnet", ResNet, LARGE, _nets(BasicBlock, (2, 2, 2, 2), (1, 1, 1, 1))),
    Family("resnet_v2", ResNet, LARGE, _nets(PreActivation, (2, 2, 2, 2), (1, 2, 2, 1))),
    Family("resnext", ResNet, LARGE, _nets(Bottleneck, (2, 2, 2, 2), (2, 3, 4, 2))),
    Family("vgg", VGG, LARGE, each("stages", (1, 1, 2, 2, 2), (2, 2, 3, 3, 3))),
    Family("densenet", DenseNet, LARGE, each("stages", (4, 4, 4), (6, 6, 6))),
    Family("mobilenet", MobileNet, IMAGES, [{"depth": 0.5, "width": 0.5}, {}]),
    Family("efficientnet", MobileNet, LARGE, [{"excite": True}, {"excite": True, "depth": 0.5}]),
    Family("convnext", ConvNeXt, LARGE, [{"stages": (2, 2, 6, 2), "width": 40},
                                         {"stages": (3, 3, 9, 3)}]),
    Family("shufflenet", ShuffleNet, IMAGES, each("stages", (2, 4, 2), (4, 8, 4))),
    Family("wavenet", WaveNet, ((8, 4096, 1),), each("stacks", 1, 3)),
)  # fmt: skip

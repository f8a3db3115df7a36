"""A short residual trunk that models of several parts share."""

import flax.linen as nn

from regal_jax.datasets.zoo.recipes.flax_convolutional import BasicBlock
from regal_jax.datasets.zoo.recipes.flax_layers import ConvNorm


class Trunk(nn.Module):
    """A few residual blocks."""

    depth: int
    features: int = 64

    @nn.compact
    def __call__(self, x):
        x = ConvNorm(self.features, 7, 2)(x)
        for index in range(self.depth):
            x = BasicBlock(self.features * 2 ** (index // 2), 1 + index % 2)(x)
        return x

"""Models of several tasks, inputs or towers: shared trunks, experts by task, siblings."""

import flax.linen as nn
import jax.numpy as jnp

from regal_jax.datasets.zoo.recipes.flax_convolutional import BasicBlock
from regal_jax.datasets.zoo.recipes.flax_families import Family, tokens
from regal_jax.datasets.zoo.recipes.flax_layers import (
    MLP,
    Attention,
    Classifier,
    ConvNorm,
    downsample,
    upsample,
)
from regal_jax.datasets.zoo.recipes.flax_trunk import Trunk
from regal_jax.datasets.zoo.recipes.recipe import each

IMAGE = (16, 128, 128, 3)
FIELDS = (128, 256)


class Perceptron(nn.Module):
    """Dense layers of one width."""

    layers: int

    @nn.compact
    def __call__(self, x):
        for _ in range(self.layers):
            x = nn.relu(nn.Dense(1024)(x))
        return nn.Dense(10)(x)


class MultiTask(nn.Module):
    """A shared trunk and a deep head a task."""

    tasks: int
    depth: int

    @nn.compact
    def __call__(self, x):
        shared, outputs = Trunk(self.depth)(x), []
        for task in range(self.tasks):
            y = shared
            for _ in range(2):
                y = BasicBlock(64)(y)
            dense = task % 2 == 0
            outputs.append(nn.Conv(task + 1, (1, 1))(upsample(y)) if dense else Classifier(10)(y))
        return outputs


class GatedExperts(nn.Module):
    """Multi-gate mixture of experts: tasks weigh shared experts."""

    experts: int
    tasks: int

    @nn.compact
    def __call__(self, x):
        shared = [MLP((256, 128))(x) for _ in range(self.experts)]
        states = [self._gated(x, shared) for _ in range(self.tasks)]
        return [MLP((64, 1))(state) for state in states]

    def _gated(self, x, experts):
        weights = nn.softmax(nn.Dense(len(experts))(x))
        parts = [weights[:, i : i + 1] * expert for i, expert in enumerate(experts)]
        return nn.relu(sum(parts))


class CrossStitch(nn.Module):
    """A network a task, whose layers exchange by learned mixing."""

    tasks: int
    depth: int

    @nn.compact
    def __call__(self, x):
        states = [x] * self.tasks
        for layer in range(self.depth):
            made = [downsample(ConvNorm(64)(state)) for state in states]
            shape = (self.tasks, self.tasks)
            mix = self.param(f"mix_{layer}", nn.initializers.lecun_normal(), shape)
            states = [sum(mix[i, j] * y for j, y in enumerate(made)) for i in range(self.tasks)]
        return [Classifier(10)(state) for state in states]


class Siamese(nn.Module):
    """One tower on two images, which are compared; it doesn't look at the others."""

    depth: int

    @nn.compact
    def __call__(self, *images):
        trunk, head = Trunk(self.depth), nn.Dense(128)
        vectors = [head(trunk(image).mean(axis=(1, 2))) for image in images[:2]]
        vectors = [v / jnp.linalg.norm(v, axis=-1, keepdims=True) for v in vectors]
        return [-jnp.log(nn.softmax(vectors[1] @ vectors[0].T) + 1e-6)]


class TwoTowers(nn.Module):
    """An image tower and a text tower in one space, contrasted (CLIP-like)."""

    depth: int

    @nn.compact
    def __call__(self, image, ids):
        image = nn.Dense(128)(Trunk(self.depth)(image).mean(axis=(1, 2)))
        text = nn.Embed(4096, 256)(ids)
        for _ in range(self.depth):
            text = text + Attention(4)(nn.LayerNorm()(text))
            text = text + MLP((512, 256), nn.gelu)(nn.LayerNorm()(text))
        logits = image @ nn.Dense(128)(text.mean(axis=1)).T
        return nn.log_softmax(logits), nn.log_softmax(logits.T)


FAMILIES = (
    Family("mlp", Perceptron, (FIELDS,), each("layers", 3, 4)),
    Family("multi_task", MultiTask, (IMAGE,), each("tasks", 2, 4, depth=2)),
    Family("mmoe", GatedExperts, (FIELDS,), each("experts", 3, 8, tasks=2)),
    Family("cross_stitch", CrossStitch, (IMAGE,), [{"tasks": 2, "depth": 3},
                                                   {"tasks": 3, "depth": 4}]),
    Family("siamese", Siamese, (IMAGE,) * 6, each("depth", 1, 4)),
    Family("two_towers", TwoTowers, (IMAGE, tokens(16, 32)), each("depth", 1, 2)),
)  # fmt: skip

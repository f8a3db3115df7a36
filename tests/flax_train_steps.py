"""Train steps of five Flax models with Adam, on shapes alone: no weight is ever made.

``TRAIN_STEPS[name]()`` gives ``(step, (state, batch, target))``: ``step(state, batch, target)``
returns the new state and the loss; state and data are pytrees of jax.ShapeDtypeStruct.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

TrainStep = tuple[Callable[..., Any], tuple[Any, ...]]


class MLP(nn.Module):
    @nn.compact
    def __call__(self, x):
        for _ in range(2):
            x = nn.relu(nn.Dense(64)(x))
        return nn.Dense(10)(x)


class CNN(nn.Module):
    @nn.compact
    def __call__(self, x):
        for features in (16, 32):
            x = nn.relu(nn.Conv(features, (3, 3))(x))
            x = nn.max_pool(x, (2, 2), strides=(2, 2))
        return nn.Dense(10)(x.reshape(x.shape[0], -1))


class ResidualBlock(nn.Module):
    features: int
    strides: int = 1

    @nn.compact
    def __call__(self, x):
        y = nn.Conv(self.features, (3, 3), strides=self.strides, use_bias=False)(x)
        y = nn.relu(nn.GroupNorm(num_groups=4)(y))
        y = nn.GroupNorm(num_groups=4)(nn.Conv(self.features, (3, 3), use_bias=False)(y))
        if x.shape != y.shape:
            x = nn.Conv(self.features, (1, 1), strides=self.strides, use_bias=False)(x)
        return nn.relu(x + y)


class ResNet(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(16, (3, 3))(x))
        for features, strides in ((16, 1), (32, 2), (64, 2)):
            x = ResidualBlock(features, strides=strides)(x)
        return nn.Dense(10)(x.mean(axis=(1, 2)))


class TransformerBlock(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = x + nn.MultiHeadDotProductAttention(num_heads=4)(nn.LayerNorm()(x))
        y = nn.Dense(4 * x.shape[-1])(nn.LayerNorm()(x))
        x = x + nn.Dense(x.shape[-1])(nn.gelu(y))
        return nn.Dense(10)(x.mean(axis=1))


class LSTM(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.RNN(nn.LSTMCell(32))(x)
        return nn.Dense(10)(x[:, -1])


def train_step(model: nn.Module, *shape: int) -> TrainStep:
    """A step of Adam on the mean cross-entropy, for a batch of ``shape`` float32 values."""
    optimizer = optax.adam(1e-3)
    batch = jax.ShapeDtypeStruct(shape, jnp.float32)
    target = jax.ShapeDtypeStruct(shape[:1], jnp.int32)
    params = jax.eval_shape(model.init, jax.random.key(0), batch)
    state = {
        "params": params["params"],
        "optimizer": jax.eval_shape(optimizer.init, params["params"]),
    }

    def loss_of(params, batch, target):
        logits = model.apply({"params": params}, batch)
        return optax.softmax_cross_entropy_with_integer_labels(logits, target).mean()

    def step(state, batch, target):
        loss, gradients = jax.value_and_grad(loss_of)(state["params"], batch, target)
        updates, optimizer_state = optimizer.update(gradients, state["optimizer"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "optimizer": optimizer_state}, loss

    return step, (state, batch, target)


TRAIN_STEPS: Mapping[str, Callable[[], TrainStep]] = MappingProxyType(
    {
        "mlp": lambda: train_step(MLP(), 32, 20),
        "cnn": lambda: train_step(CNN(), 8, 16, 16, 3),
        "resnet": lambda: train_step(ResNet(), 8, 32, 32, 3),
        "transformer": lambda: train_step(TransformerBlock(), 4, 16, 32),
        "lstm": lambda: train_step(LSTM(), 4, 12, 8),
    }
)

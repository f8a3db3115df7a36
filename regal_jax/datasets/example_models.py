"""Real models to try things on: Flax train steps, traced from shapes without making weights."""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.jax.program import from_jax


class TransformerLayer(nn.Module):
    """A pre-norm layer: self-attention and a GELU MLP, each with a residual."""

    heads: int

    @nn.compact
    def __call__(self, x):
        width = x.shape[-1]
        x = x + nn.MultiHeadDotProductAttention(num_heads=self.heads)(nn.LayerNorm()(x))
        hidden = nn.gelu(nn.Dense(4 * width)(nn.LayerNorm()(x)))
        return x + nn.Dense(width)(hidden)


class Transformer(nn.Module):
    """A classifier over sequences of vectors."""

    layers: int = 2
    heads: int = 8

    @nn.compact
    def __call__(self, x):
        for _ in range(self.layers):
            x = TransformerLayer(self.heads)(x)
        return nn.Dense(1000)(nn.LayerNorm()(x).mean(axis=1))


class MLP(nn.Module):
    """Four dense layers."""

    @nn.compact
    def __call__(self, x):
        for _ in range(3):
            x = nn.relu(nn.Dense(1024)(x))
        return nn.Dense(1000)(x)


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[int, ...]]]] = {
    "transformer": lambda: (Transformer(), (16, 256, 256)),
    "mlp": lambda: (MLP(), (256, 784)),
}
"""Name -> (module, shape of one microbatch of inputs)."""


def train_graph(name: str, *, microbatches: int = 4) -> ComputationGraph:
    """The graph of one training step: gradients summed over microbatches, then an Adam update.

    Parameters and optimizer state stay in memory; their new values are outputs of the step.
    """
    model, shape = MODELS[name]()
    optimizer = optax.adam(1e-3)
    inputs = jax.ShapeDtypeStruct((microbatches, *shape), jnp.float32)
    labels = jax.ShapeDtypeStruct((microbatches, shape[0]), jnp.int32)
    one = jax.ShapeDtypeStruct(shape, jnp.float32)
    params = jax.eval_shape(model.init, jax.random.key(0), one)
    state = (params, jax.eval_shape(optimizer.init, params))

    def loss_of(params, x, y):
        logits = model.apply(params, x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    def step(state, inputs, labels):
        params, optimizer_state = state
        gradients = [jax.grad(loss_of)(params, x, y) for x, y in zip(inputs, labels, strict=True)]
        total = jax.tree.map(lambda *leaves: sum(leaves), *gradients)
        updates, optimizer_state = optimizer.update(total, optimizer_state, params)
        return optax.apply_updates(params, updates), optimizer_state

    graph = from_jax(step, state, inputs, labels, name=f"{name}, {microbatches} microbatches")
    return graph.replace(family=name)

"""Networks written as loops, as large language models and recurrent ones in JAX are."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from regal_jax.datasets.zoo.recipes import jax_steps
from regal_jax.datasets.zoo.recipes.jax_programs import Program, floats

Weights = Mapping[str, jax.Array]


def decoder(
    weights: Mapping[str, Any], tokens: jax.Array, *, heads: int, checkpointed: bool = False
) -> jax.Array:
    """The loss of a language model like Llama: a scan over its layers (arXiv 2302.13971, 2.2).

    Args:
      weights: "embedding" and "head" [vocabulary, width], and "layers", stacked.
      tokens: [batch, length + 1].
      heads: of attention.
      checkpointed: whether a layer's activations are computed again.
    """

    def turn(x: jax.Array, layer: Weights) -> tuple[jax.Array, None]:
        return _decoder_layer(x, layer, heads), None

    x = weights["embedding"][tokens[:, :-1]]
    x, _ = jax.lax.scan(jax.checkpoint(turn) if checkpointed else turn, x, weights["layers"])
    logits = jax.nn.log_softmax(_normed(x) @ weights["head"].T)
    return -jnp.take_along_axis(logits, tokens[:, 1:, None], -1)


def _decoder_layer(x: jax.Array, layer: Weights, heads: int) -> jax.Array:
    parts = (_normed(x) * layer["scale"]) @ layer["attention"]
    query, key, value = (
        part.reshape(*x.shape[:2], heads, -1) for part in jnp.split(parts, 3, axis=-1)
    )
    query, key = _rotated(query), _rotated(key)
    mixed = jax.nn.dot_product_attention(query, key, value, is_causal=True)
    x = x + mixed.reshape(x.shape) @ layer["mixed"]
    gate, up = jnp.split((_normed(x) * layer["scale_up"]) @ layer["up"], 2, axis=-1)
    return x + (jax.nn.silu(gate) * up) @ layer["down"]


def _normed(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x**2, axis=-1, keepdims=True) + 1e-6)


def _rotated(x: jax.Array) -> jax.Array:
    """Rotary positions, of [batch, length, heads, width]."""
    half = x.shape[-1] // 2
    turns = jnp.arange(x.shape[1])[:, None] * 1e4 ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(turns)[:, None], jnp.sin(turns)[:, None]
    left, right = x[..., :half], x[..., half:]
    return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)


def lstm(weights: Weights, inputs: jax.Array) -> jax.Array:
    """Outputs of a long short-term memory: a scan over time.

    Args:
      weights: "cell" [inputs + width, 4 width], "bias" and "out".
      inputs: [batch, length, inputs].
    """

    def turn(carry: tuple, x: jax.Array) -> tuple[tuple, jax.Array]:
        hidden, memory = carry
        gates = jnp.concatenate([x, hidden], -1) @ weights["cell"] + weights["bias"]
        take, forget, show, new = jnp.split(gates, 4, axis=-1)
        memory = jax.nn.sigmoid(forget) * memory + jax.nn.sigmoid(take) * jnp.tanh(new)
        hidden = jax.nn.sigmoid(show) * jnp.tanh(memory)
        return (hidden, memory), hidden

    first = jnp.zeros((inputs.shape[0], weights["bias"].size // 4))
    _, states = jax.lax.scan(turn, (first, first), inputs.swapaxes(0, 1))
    return (states @ weights["out"]) ** 2


def _decoder_arguments(heads: int, checkpointed: bool = False) -> Sequence[Any]:
    layers, width, hidden, vocabulary, batch, length = 8, 256, 704, 8192, 16, 128
    stacked = {
        "scale": (width,),
        "attention": (width, 3 * width),
        "mixed": (width, width),
        "scale_up": (width,),
        "up": (width, 2 * hidden),
        "down": (hidden, width),
    }
    weights = {
        "embedding": floats(vocabulary, width),
        "head": floats(vocabulary, width),
        "layers": {name: floats(layers, *shape) for name, shape in stacked.items()},
    }
    return weights, jax.ShapeDtypeStruct((batch, length + 1), jnp.int32)


def _lstm_arguments() -> Sequence[Any]:
    inputs, width, batch, length = 64, 256, 64, 128
    weights = {
        "cell": floats(inputs + width, 4 * width),
        "bias": floats(4 * width),
        "out": floats(width, 32),
    }
    return weights, floats(batch, length, inputs)


PROGRAMS = (
    Program("scanned_decoder", decoder, _decoder_arguments, [{"heads": 8}], jax_steps.CHECKPOINTED),
    Program("scanned_lstm", lstm, _lstm_arguments, [{}], jax_steps.ADAM),
)

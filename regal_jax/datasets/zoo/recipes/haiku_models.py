"""Haiku: the networks of hk.nets, and a few made of its layers."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp

from regal_jax.datasets.zoo.recipes import jax_steps
from regal_jax.datasets.zoo.recipes.recipe import Recipe, Source

Network = Callable[..., Any]
"""(is_training, *inputs) -> outputs; run inside hk.transform."""

IMAGES = ((8, 224, 224, 3),)
SMALL = ((16, 64, 64, 3),)


def resnet(training: bool, x: jax.Array, *, depth: int, v2: bool) -> jax.Array:
    network = getattr(hk.nets, f"ResNet{depth}")
    return network(1000, resnet_v2=v2)(x, is_training=training)


def mobilenet(training: bool, x: jax.Array, *, width: float) -> jax.Array:
    channels = [int(width * c) for c in (64, 128, 128, 256, 256, *(512,) * 6, 1024, 1024)]
    return hk.nets.MobileNetV1(channels=channels)(x, is_training=training)


def mlp(training: bool, x: jax.Array, *, widths: Sequence[int]) -> jax.Array:
    return hk.nets.MLP([*widths, 10])(x)


def vq_vae(training: bool, x: jax.Array, *, levels: int, moving: bool) -> list[jax.Array]:
    """Encoder, quantizer (its codes by gradients or moving averages), decoder."""
    y = x
    for level in range(levels):
        y = jax.nn.relu(hk.Conv2D(64 * 2**level, 4, stride=2)(y))
    codes = hk.Conv2D(64, 1)(y)
    if moving:
        quantizer: Any = hk.nets.VectorQuantizerEMA(64, 512, 0.25, 0.99)
    else:
        quantizer = hk.nets.VectorQuantizer(64, 512, 0.25)
    found = quantizer(codes, is_training=training)
    y = found["quantize"]
    for level in reversed(range(levels)):
        y = jax.nn.relu(hk.Conv2DTranspose(64 * 2**level, 4, stride=2)(y))
    return [(hk.Conv2D(3, 3)(y) - x) ** 2, found["loss"]]


def recurrent(training: bool, x: jax.Array, *, core: str, layers: int, steps: int) -> Any:
    """Cores in a stack, unrolled."""
    stack = hk.DeepRNN([getattr(hk, core)(256) for _ in range(layers)])
    frames = x[:steps]
    outputs, _ = hk.static_unroll(stack, frames, stack.initial_state(x.shape[1]))
    return hk.BatchApply(hk.Linear(64))(outputs)


def convolutional_lstm(training: bool, x: jax.Array, *, steps: int) -> Any:
    core = hk.Conv2DLSTM((32, 32), 32, 3)
    return hk.static_unroll(core, x[:steps], core.initial_state(x.shape[1]))[0]


def transformer(training: bool, x: jax.Array, *, layers: int) -> jax.Array:
    for _ in range(layers):
        x = x + _attended(_norm(x))
        hidden = jax.nn.gelu(hk.Linear(1024)(_norm(x)))
        x = x + hk.Linear(256)(hidden)
    return hk.Linear(100)(_norm(x).mean(axis=1))


def _attended(x: jax.Array) -> jax.Array:
    return hk.MultiHeadAttention(8, 32, w_init=hk.initializers.VarianceScaling())(x, x, x)


def _norm(x: jax.Array) -> jax.Array:
    return hk.LayerNorm(-1, create_scale=True, create_offset=True)(x)


def spectral_critic(training: bool, x: jax.Array, *, levels: int) -> jax.Array:
    """Strided convolutions with spectrally normalised weights after each."""
    for level in range(levels):
        x = jax.nn.leaky_relu(hk.Conv2D(32 * 2**level, 4, stride=2)(x))
        weight = hk.get_parameter(f"mix_{level}", (x.shape[-1],) * 2, init=jnp.zeros)
        x = x @ hk.SpectralNorm(name=f"norm_{level}")(weight)
    return hk.Linear(1)(hk.Flatten()(x))


def recipes() -> Iterator[Recipe]:
    """Every case; the number tells apart the cases of one network."""
    seen: dict[str, int] = {}
    for name, network, shapes, options in CASES:
        rank = seen[name] = seen.get(name, 0) + 1
        yield jax_steps.model_recipe(
            f"haiku/{name}_{rank}",
            f"haiku/{name}",
            partial(_model, partial(network, **options), shapes),
            jax_steps.TRAINING if rank > 1 else jax_steps.ADAM,
        )


def _model(network: Network, shapes: Sequence[tuple[int, ...]], checked: bool) -> jax_steps.Model:
    made = hk.transform_with_state(network)
    inputs = tuple(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes)
    key = jax.eval_shape(lambda: jax.random.key(0))
    params, state = jax.eval_shape(partial(_initial, made), key, *inputs)

    def apply(params: Any, state: Any, inputs: Any, training: bool) -> tuple[Any, Any]:
        return made.apply(params, state, inputs[0], training, *inputs[1:])

    return jax_steps.Model(apply, params, state, (key, *inputs))


def _initial(made: hk.TransformedWithState, key: Any, *inputs: Any) -> Any:
    return made.init(key, True, *inputs)


def _each(name: str, network: Network, shapes: Any, *options: dict[str, Any]) -> list[tuple]:
    return [(name, network, shapes, chosen) for chosen in options]


CASES = (
    *_each("resnet", resnet, IMAGES, {"depth": 18, "v2": False}, {"depth": 34, "v2": False}),
    *_each("resnet_v2", resnet, IMAGES, {"depth": 18, "v2": True}, {"depth": 34, "v2": True}),
    *_each("mobilenet", mobilenet, IMAGES, {"width": 1.0}),
    *_each("mlp", mlp, ((128, 784),), {"widths": (512,) * 2}, {"widths": (512,) * 4}),
    *_each("vq_vae", vq_vae, SMALL, {"levels": 2, "moving": False}, {"levels": 2, "moving": True}),
    *_each("lstm", recurrent, ((48, 16, 128),), {"core": "LSTM", "layers": 1, "steps": 8},
           {"core": "LSTM", "layers": 2, "steps": 16}),
    *_each("gru", recurrent, ((48, 16, 256),), {"core": "GRU", "layers": 1, "steps": 8},
           {"core": "GRU", "layers": 3, "steps": 16}),
    *_each("vanilla_rnn", recurrent, ((48, 16, 128),),
           {"core": "VanillaRNN", "layers": 2, "steps": 12},
           {"core": "VanillaRNN", "layers": 6, "steps": 32}),
    *_each("conv_lstm", convolutional_lstm, ((16, 8, 32, 32, 3),), {"steps": 4}, {"steps": 16}),
    *_each("transformer", transformer, ((8, 128, 256),), {"layers": 1}, {"layers": 4}),
    *_each("spectral_critic", spectral_critic, SMALL, {"levels": 2}, {"levels": 4}),
)  # fmt: skip

SOURCE = Source("haiku", ("dm-haiku", "jax"), recipes)

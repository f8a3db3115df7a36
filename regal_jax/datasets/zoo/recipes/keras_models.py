"""Keras on JAX: every network of keras.applications."""

import os
from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp

from regal_jax.datasets.zoo.recipes import jax_steps
from regal_jax.datasets.zoo.recipes.recipe import Recipe, Source

BATCH = 8
SIDE = 224
"""Of images whose size a network leaves open."""


def recipes() -> Iterator[Recipe]:
    """Families are the modules of keras.applications; the first of each also trains by Adam."""
    keras = _keras()
    seen: set[str] = set()
    for name in sorted(dir(keras.applications)):
        if not name[0].isupper():
            continue
        module = getattr(keras.applications, name).__module__.split(".")[-1]
        family = "vgg" if module.startswith("vgg") else module
        modes = jax_steps.TRAINING if family in seen else jax_steps.ADAM
        seen.add(family)
        make = partial(_model, name)
        yield jax_steps.model_recipe(f"keras/{name}", f"keras/{family}", make, modes)


def _keras() -> Any:
    os.environ.setdefault("KERAS_BACKEND", "jax")
    import keras

    if keras.backend.backend() != "jax":
        raise ImportError("keras runs on another backend; set KERAS_BACKEND=jax")
    return keras


def _model(name: str, checkpointed: bool) -> jax_steps.Model:
    keras = _keras()
    keras.utils.clear_session()
    with mock.patch.object(keras.Variable, "_initialize_with_initializer", _zeros):
        network = getattr(keras.applications, name)(weights=None)
    shape = (BATCH, *(size or SIDE for size in network.inputs[0].shape[1:]))

    def apply(params: Any, state: Any, inputs: Any, training: bool) -> tuple[Any, Any]:
        learned = [params[variable.path] for variable in network.trainable_variables]
        kept = [state[variable.path] for variable in network.non_trainable_variables]
        outputs, kept = network.stateless_call(learned, kept, inputs, training=training)
        paths = [variable.path for variable in network.non_trainable_variables]
        return outputs, dict(zip(paths, kept, strict=True))

    return jax_steps.Model(
        apply,
        _shapes(network.trainable_variables),
        _shapes(network.non_trainable_variables),
        jax.ShapeDtypeStruct(shape, jnp.float32),
    )


def _zeros(variable: Any, initializer: Any) -> None:
    """Random weights cost time and are never read."""
    variable._value = jnp.zeros(variable._shape, variable._dtype)


def _shapes(variables: list[Any]) -> dict[str, jax.ShapeDtypeStruct]:
    return {v.path: jax.ShapeDtypeStruct(v.shape, v.dtype) for v in variables}


SOURCE = Source("keras", ("keras", "jax"), recipes)

"""Families of Flax modules as recipes: a module, example inputs, and variants of its options."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from regal_jax.datasets.zoo.recipes import jax_steps
from regal_jax.datasets.zoo.recipes.recipe import Recipe

Input = tuple[int, ...] | jax.ShapeDtypeStruct
"""Floats of a shape, or any array."""


class Family(NamedTuple):
    """An architecture and two of its sizes. A variant's option ``inputs`` replaces the family's."""

    name: str
    module: Callable[..., nn.Module]
    inputs: Sequence[Input]
    variants: Sequence[Mapping[str, Any]]


def tokens(*shape: int) -> jax.ShapeDtypeStruct:
    """Integers of a shape."""
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def family_recipes(family: Family) -> Iterator[Recipe]:
    """One recipe a variant, numbered from 1; modules with a field ``remat`` can be checkpointed."""
    modes: Sequence[str] = jax_steps.CHECKPOINTED if can_checkpoint(family) else jax_steps.ADAM
    name = f"flax/{family.name}"
    for number, variant in enumerate(family.variants, 1):
        make = partial(family_model, family, variant)
        yield jax_steps.model_recipe(f"{name}_{number}", name, make, modes)


def can_checkpoint(family: Family) -> bool:
    """Whether a family's activations can be computed again in the backward pass."""
    return "remat" in getattr(family.module, "__dataclass_fields__", {})


def flax_model(module: nn.Module, inputs: Sequence[Input]) -> jax_steps.Model:
    """A module and its variables' shapes; collections other than parameters are its state."""
    arrays = tuple(jax.ShapeDtypeStruct(x, jnp.float32) if isinstance(x, tuple) else x
                   for x in inputs)  # fmt: skip
    state = dict(jax.eval_shape(module.init, jax.random.key(0), *arrays))
    params = state.pop("params")

    def apply(params: Any, state: Any, inputs: Any, training: bool) -> tuple[Any, Any]:
        variables = {"params": params, **state}
        if training and state:
            return module.apply(variables, *inputs, mutable=list(state))
        return module.apply(variables, *inputs), state

    return jax_steps.Model(apply, params, state, arrays)


def family_model(
    family: Family, variant: Mapping[str, Any], checkpointed: bool = False
) -> jax_steps.Model:
    """The model of one variant."""
    options = {key: value for key, value in variant.items() if key != "inputs"}
    if checkpointed:
        options["remat"] = True
    return flax_model(family.module(**options), variant.get("inputs", family.inputs))

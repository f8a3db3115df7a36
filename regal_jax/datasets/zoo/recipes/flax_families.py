"""Families of Flax modules as recipes: a module, example inputs, and variants of its options."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from regal_jax.datasets.zoo.recipes import jax_steps
from regal_jax.datasets.zoo.recipes.recipe import Recipe

Input = tuple[int, ...] | jax.ShapeDtypeStruct
"""Floats of a shape, or any array."""

WITH_ADAM = 2
"""The first variants of a family also give the graph of an Adam step."""


class Family(NamedTuple):
    """An architecture and its sizes.

    A variant's option ``inputs`` replaces the family's; ``modes`` those it gets by its rank.
    """

    name: str
    module: Callable[..., nn.Module]
    inputs: Sequence[Input]
    variants: Sequence[Mapping[str, Any]]


FORWARD: Mapping[str, Any] = MappingProxyType({"modes": ("inference",)})
"""Of variants whose training is too large."""


def tokens(*shape: int) -> jax.ShapeDtypeStruct:
    """Integers of a shape."""
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def each(option: str, *values: Any, **more: Any) -> list[dict[str, Any]]:
    """Variants that differ in one option."""
    return [{option: value, **more} for value in values]


def family_recipes(family: Family) -> Iterator[Recipe]:
    """One recipe a variant, numbered from 1; modules with a field ``remat`` can be checkpointed."""
    checkpoints = can_checkpoint(family)
    for rank, variant in enumerate(family.variants):
        modes: Sequence[str] = jax_steps.ADAM if rank < WITH_ADAM else jax_steps.TRAINING
        modes = (*modes, "training_checkpointed") if checkpoints else modes
        modes = variant.get("modes", modes)
        name = f"flax/{family.name}"
        yield jax_steps.model_recipe(
            f"{name}_{rank + 1}", name, partial(family_model, family, variant), modes
        )


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
    options = {key: value for key, value in variant.items() if key not in ("inputs", "modes")}
    if checkpointed:
        options["remat"] = True
    return flax_model(family.module(**options), variant.get("inputs", family.inputs))

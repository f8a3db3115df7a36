"""Train steps on several devices: what each device holds of parameters, moments and batches."""

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from regal_jax.compiler.accelerators.accelerator import AXIS, Accelerator
from regal_jax.compiler.accelerators.measure import placed
from regal_jax.datasets.jax_train_steps import Program

Axis = Callable[[tuple[int, ...], int], int | None]
"""The axis of an array of some shape that is divided among so many devices, if any."""


def _nothing(shape: tuple[int, ...], devices: int) -> int | None:
    return None


def _first(shape: tuple[int, ...], devices: int) -> int | None:
    return 0 if shape and shape[0] % devices == 0 else None


def _last(shape: tuple[int, ...], devices: int) -> int | None:
    return len(shape) - 1 if len(shape) > 1 and shape[-1] % devices == 0 else None


def _longest(shape: tuple[int, ...], devices: int) -> int | None:
    fits = [axis for axis, size in enumerate(shape) if size % devices == 0]
    return max(fits, key=lambda axis: shape[axis], default=None)


SHARDINGS: dict[str, tuple[Axis, Axis]] = {
    "whole": (_nothing, _nothing),
    "batch": (_nothing, _first),
    "fsdp": (_longest, _first),
    "tensor": (_last, _nothing),
}
"""How parameters and moments, and inputs, are divided: not at all; inputs by their batch; all of
them, parameters along their longest axis that can be (fully sharded data parallelism); parameters
along their last one (tensor parallelism)."""


def sharded(one: Program, how: str, target: Accelerator) -> Program:
    """A train step whose arguments lie on an accelerator's devices, in one way of ``SHARDINGS``;
    gradients, new parameters and moments lie as the parameters and moments do."""
    parameters, inputs = SHARDINGS[how]

    def specs(tree: Any, axis_of: Axis) -> Any:
        return jax.tree.map(lambda x: _spec(axis_of(x.shape, len(target.devices))), tree)

    def constrained(x: jax.Array, spec: PartitionSpec) -> jax.Array:
        return jax.lax.with_sharding_constraint(x, NamedSharding(target.mesh(), spec))

    def function(*args: Any) -> tuple[Any, Any, Any]:
        found, *like = one.function(*args)
        return found, *(jax.tree.map(constrained, tree, specs(tree, parameters)) for tree in like)

    ways = parameters, _nothing, inputs, parameters  # of parameters, state, inputs, moments
    divided = tuple(specs(tree, way) for tree, way in zip(one.shapes, ways, strict=True))
    shapes, _ = placed(target, one.shapes, {}, divided)
    if how == "whole":
        return one._replace(shapes=shapes)
    return one._replace(name=f"{one.name}, {how}", function=function, shapes=shapes)


def _spec(axis: int | None) -> PartitionSpec:
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, AXIS)

"""Train steps on several devices: what each device holds of parameters, moments and batches."""

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from regal_jax.compiler.accelerators.accelerator import AXIS, Accelerator
from regal_jax.datasets.jax_train_steps import Program

Axis = Callable[[tuple[int, ...], Accelerator], int | None]
"""The axis of an array of some shape that is divided among devices, if any."""


def _nothing(shape: tuple[int, ...], target: Accelerator) -> int | None:
    return None


def _first(shape: tuple[int, ...], target: Accelerator) -> int | None:
    return 0 if shape and shape[0] % len(target.devices) == 0 else None


def _last(shape: tuple[int, ...], target: Accelerator) -> int | None:
    return len(shape) - 1 if len(shape) > 1 and shape[-1] % len(target.devices) == 0 else None


def _longest(shape: tuple[int, ...], target: Accelerator) -> int | None:
    fits = [axis for axis, size in enumerate(shape) if size % len(target.devices) == 0]
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

    def placed(tree: Any, axis_of: Axis) -> Any:
        return jax.tree.map(lambda leaf: _on(leaf, axis_of(leaf.shape, target), target), tree)

    def function(*args: Any) -> tuple[Any, Any, Any]:
        found, *like = one.function(*args)
        return found, *(_constrained(tree, parameters, target) for tree in like)

    params, state, batch, moments = one.shapes
    shapes = (placed(params, parameters), placed(state, _nothing), placed(batch, inputs))
    divided = one._replace(shapes=(*shapes, placed(moments, parameters)))
    return (
        divided
        if how == "whole"
        else divided._replace(name=f"{one.name}, {how}", function=function)
    )


def _sharding(axis: int | None, target: Accelerator) -> NamedSharding:
    spec = PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, AXIS)
    return NamedSharding(target.mesh(), spec)


def _on(leaf: Any, axis: int | None, target: Accelerator) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=_sharding(axis, target))


def _constrained(tree: Any, axis_of: Axis, target: Accelerator) -> Any:
    return jax.tree.map(
        lambda x: jax.lax.with_sharding_constraint(x, _sharding(axis_of(x.shape, target), target)),
        tree,
    )

"""Train steps on several devices: what each device holds of parameters, moments and batches."""

from typing import Any, Literal

import jax
from jax.sharding import NamedSharding, PartitionSpec

from regal_jax.compiler.accelerators.accelerator import AXIS, Accelerator
from regal_jax.datasets.jax_train_steps import Program

Sharding = Literal["whole", "batch", "fsdp", "tensor"]
"""All of everything; a part of the batch; of that, of parameters and of moments (their longest axis
that divides, as fully sharded data parallelism); of parameters and moments along their last one."""


def sharded(one: Program, how: Sharding, target: Accelerator) -> Program:
    """A train step whose arguments lie on an accelerator's devices; gradients, new parameters and
    moments lie as the parameters and moments do."""
    parameters = {"whole": _nothing, "batch": _nothing, "fsdp": _longest, "tensor": _last}[how]
    inputs = _first if how in ("batch", "fsdp") else _nothing

    def placed(tree: Any, axis_of: Any) -> Any:
        return jax.tree.map(lambda leaf: _on(leaf, axis_of(leaf.shape, target), target), tree)

    def function(*args: Any) -> tuple[Any, Any, Any]:
        found, *like = one.function(*args)
        return found, *(_constrained(tree, parameters, target) for tree in like)

    params, state, batch, moments = one.shapes
    shapes = (placed(params, parameters), placed(state, _nothing), placed(batch, inputs))
    name = one.name if how == "whole" else f"{one.name}, {how}"
    return one._replace(name=name, function=function, shapes=(*shapes, placed(moments, parameters)))


def _nothing(shape: tuple[int, ...], target: Accelerator) -> int | None:
    return None


def _first(shape: tuple[int, ...], target: Accelerator) -> int | None:
    return 0 if shape and shape[0] % len(target.devices) == 0 else None


def _last(shape: tuple[int, ...], target: Accelerator) -> int | None:
    return len(shape) - 1 if len(shape) > 1 and shape[-1] % len(target.devices) == 0 else None


def _longest(shape: tuple[int, ...], target: Accelerator) -> int | None:
    fits = [axis for axis, size in enumerate(shape) if size % len(target.devices) == 0]
    return max(fits, key=lambda axis: shape[axis], default=None)


def _sharding(axis: int | None, target: Accelerator) -> NamedSharding:
    spec = PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, AXIS)
    return NamedSharding(target.mesh(), spec)


def _on(leaf: Any, axis: int | None, target: Accelerator) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=_sharding(axis, target))


def _constrained(tree: Any, axis_of: Any, target: Accelerator) -> Any:
    return jax.tree.map(
        lambda x: jax.lax.with_sharding_constraint(x, _sharding(axis_of(x.shape, target), target)),
        tree,
    )

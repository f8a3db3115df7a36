"""Gathers from a slice of an operand, and scatters into one, along the axis that indices lie on.

Each slice gathers what it has, and zeros for the rest, which all slices add up to; and of what is
scattered it takes what is for it.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax.extend.core import JaxprEqn
from jax.lax import GatherScatterMode

from regal_jax.compiler.slices.cut import Cut
from regal_jax.graphs.importers.jax.flat_program import run_equation


def of_slice(
    equation: JaxprEqn, axis: int, coordinate: int, inputs: Sequence[Any], cut: Cut
) -> Sequence[Any]:
    """What an equation makes of a slice of its operand, and of the other inputs as they are.

    Args:
      equation: a gather of windows of one element along the axis, or a scatter of such.
      axis: of the operand. coordinate: of the indices, the one that lies on it.
      inputs: the slice, and the others.
      cut: where the slice lies.
    """
    (operand, indices, *updates), params = inputs, equation.params
    whole: Any = equation.invars[0].aval
    size, beyond, indices = whole.shape[axis], operand.shape[axis], indices.astype(jnp.int32)
    places = indices[..., coordinate]
    if params["mode"] == GatherScatterMode.CLIP:
        places = jnp.clip(places, 0, size - 1)
    inside, local = cut.within(places, size)
    is_filled = (places < 0) | (places >= size)
    local = jnp.where(inside, local, jnp.where(is_filled | bool(updates), beyond, 0))
    is_own = jnp.arange(indices.shape[-1]) == coordinate
    indices = jnp.where(is_own, local[..., None], indices)
    how = {"mode": GatherScatterMode.FILL_OR_DROP if updates else params["mode"]}
    how |= dict.fromkeys(("unique_indices", "indices_are_sorted"), False)
    made = run_equation(equation.replace(params=params | how), [operand, indices, *updates])
    if updates:
        return made
    counts = inside | (is_filled & (cut.number == 0))  # what is filled, in the first slice
    counts = jnp.expand_dims(counts, params["dimension_numbers"].offset_dims)
    return [jnp.where(counts, one, jnp.zeros_like(one)) for one in made]

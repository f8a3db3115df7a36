"""Slices of random bits: the same that are made of all at once.

JAX's Threefry hashes the place of each element ("partitionable", the default), so that any part
can be made by itself.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn
from jax.extend.random import threefry2x32_p

from regal_jax.compiler.slices.cut import Cut


def hashes_places(equation: JaxprEqn) -> bool:
    """Whether an equation makes random bits of one key whose slices are known."""
    key: Any = equation.invars[0].aval
    is_threefry = key.shape == () and str(key.dtype) == "key<fry>"
    places = math.prod(equation.params["shape"])
    return is_threefry and bool(jax.config.jax_threefry_partitionable) and places < 2**32  # type: ignore[attr-defined]


def bits_of_slice(equation: JaxprEqn, key: Any, axis: int, cut: Cut) -> jax.Array:
    """The slice of what an equation makes of a key, along an axis."""
    shape, width = equation.params["shape"], equation.params["bit_width"]
    of_slice = (*shape[:axis], shape[axis] // cut.turns, *shape[axis + 1 :])
    places = jnp.zeros(of_slice, jnp.uint32)
    for other, size in enumerate(shape):
        along = jax.lax.broadcasted_iota(jnp.uint32, of_slice, other)
        places = places * size + (cut.places(along, size) if other == axis else along)
    above = places & 0  # mapped where the places are, which the primitive asks for
    one, two = threefry2x32_p.bind(*jax.random.key_data(key), above, places)
    if width == 64:
        return (one.astype(jnp.uint64) << 32) | two.astype(jnp.uint64)
    return (one ^ two).astype(jnp.dtype(f"uint{width}"))

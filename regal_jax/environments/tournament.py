"""The least of N numbers again and again, while some of them change: sqrt(N) work each time.

Numbers stand in blocks of about sqrt(N), of which the least are kept; what changes concerns its own
block. Places are int32; N and above means nowhere, and is left out.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Tournament(NamedTuple):
    """Numbers and the least of each block.

    Attributes:
      values: [blocks, width], in order.
      least: [blocks].
    """

    values: jax.Array
    least: jax.Array


def block_width(count: int) -> int:
    """A power of two about the square root of how many numbers there are."""
    return 1 << math.ceil(math.log2(count) / 2)


def tournament(values: jax.Array, nothing) -> Tournament:
    """A tournament of N numbers; ``nothing`` is no less than any."""
    width = block_width(len(values))
    values = jnp.pad(values, (0, -len(values) % width), constant_values=nothing)
    values = values.reshape(-1, width)
    return Tournament(values, jnp.min(values, axis=1))


def first_least(numbers: Tournament) -> jax.Array:
    """int32[]: the place of the least, the first of them."""
    block = jax.lax.argmin(numbers.least, 0, jnp.int32)
    at = jax.lax.argmin(numbers.values[block], 0, jnp.int32)
    return block * numbers.values.shape[1] + at


def first_within(numbers: Tournament, limit: jax.Array) -> jax.Array:
    """int32[]: the place of the first that is at most its block's limit [blocks]; there is one."""
    block = _first(numbers.least <= limit)
    return block * numbers.values.shape[1] + _first(numbers.values[block] <= limit[block])


def _first(mask: jax.Array) -> jax.Array:
    return jax.lax.argmax(mask.astype(jnp.int32), 0, jnp.int32)


def lowered(numbers: Tournament, places: jax.Array, values: jax.Array) -> Tournament:
    """With values at some places int32[A] that are no more than those that were there."""
    block, at = jnp.divmod(places, numbers.values.shape[1])
    return Tournament(
        numbers.values.at[block, at].set(values, mode="drop"),
        numbers.least.at[block].min(values, mode="drop"),
    )


def replaced(numbers: Tournament, place: jax.Array, value) -> Tournament:
    """With another value at one place."""
    block, at = jnp.divmod(place, numbers.values.shape[1])
    row = numbers.values.at[block].get(mode="clip").at[at].set(value)
    return Tournament(
        numbers.values.at[block].set(row, mode="drop"),
        numbers.least.at[block].set(jnp.min(row), mode="drop"),
    )

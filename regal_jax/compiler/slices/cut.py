"""One of the slices of a region: a part of each axis, or every so many elements of it."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Cut(NamedTuple):
    """Where a slice lies along the axes of a class.

    Attributes:
      turns: slices.
      number: this one's, from 0.
      among: 0 for parts one after another. Else how many groups of elements all axes have, of
        which a slice is every ``turns``-th: devices that have a part of an axis each then have a
        part of each slice.
    """

    turns: int
    number: Any
    among: int = 0

    def take(self, whole: Any, axis: int) -> Any:
        """The slice of an array."""
        size = whole.shape[axis] // self.turns
        if not self.among:
            return jax.lax.dynamic_slice_in_dim(whole, self.number * size, size, axis)
        part = jax.lax.dynamic_index_in_dim(self._apart(whole, axis), self.number, axis + 1, False)
        return part.reshape(*whole.shape[:axis], size, *whole.shape[axis + 1 :])

    def put(self, whole: Any, part: Any, axis: int) -> Any:
        """The array with this slice."""
        if not self.among:
            begin = self.number * part.shape[axis]
            return jax.lax.dynamic_update_slice_in_dim(whole, part, begin, axis)
        apart = self._apart(whole, axis)
        part = part.reshape(*apart.shape[: axis + 1], *apart.shape[axis + 2 :])
        made = jax.lax.dynamic_update_index_in_dim(apart, part, self.number, axis + 1)
        return made.reshape(whole.shape)

    def places(self, within: Any, size: int) -> Any:
        """Where along an axis of so many elements those of the slice are, by places in it."""
        number = jnp.asarray(self.number, within.dtype)
        if not self.among:
            return within + number * (size // self.turns)
        group = size // self.among
        return within + (within // group * (self.turns - 1) + number) * group

    def _apart(self, whole: Any, axis: int) -> Any:
        """With an axis of slices behind the groups' axis."""
        groups = self.among // self.turns
        return whole.reshape(*whole.shape[:axis], groups, self.turns, -1, *whole.shape[axis + 1 :])

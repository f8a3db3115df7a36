"""One of the slices of a region: a part of each axis, or every so many elements of it."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Cut(NamedTuple):
    """Where a slice lies along the axes of a class.

    Attributes:
      turns: slices.
      number: this one's, from 0.
      among: groups of elements that all axes have, of each of which a slice has a part: devices
        that have some of the groups each then have a part of each slice.
    """

    turns: int
    number: Any
    among: int = 1

    def take(self, whole: Any, axis: int) -> Any:
        """The slice of an array."""
        size = whole.shape[axis] // self.turns
        if self.among == 1:
            return jax.lax.dynamic_slice_in_dim(whole, self.number * size, size, axis)
        part = self.take_apart(whole, axis)
        return part.reshape(*whole.shape[:axis], size, *whole.shape[axis + 1 :])

    def take_apart(self, whole: Any, axis: int) -> Any:
        """The same with an axis of groups before what each has."""
        return jax.lax.dynamic_index_in_dim(self._apart(whole, axis), self.number, axis + 1, False)

    def put(self, whole: Any, part: Any, axis: int) -> Any:
        """The array with this slice."""
        if self.among == 1:
            begin = self.number * part.shape[axis]
            return jax.lax.dynamic_update_slice_in_dim(whole, part, begin, axis)
        apart = self._apart(whole, axis)
        part = part.reshape(*apart.shape[: axis + 1], *apart.shape[axis + 2 :])
        made = jax.lax.dynamic_update_index_in_dim(apart, part, self.number, axis + 1)
        return made.reshape(whole.shape)

    def places(self, within: Any, size: int) -> Any:
        """Where along an axis of so many elements those of the slice are, by places in it."""
        number = jnp.asarray(self.number, within.dtype)
        group = size // (self.among * self.turns)
        return within + (within // group * (self.turns - 1) + number) * group

    def within(self, places: Any, size: int) -> tuple[Any, Any]:
        """Which places along an axis of so many elements are of the slice, and where in it."""
        group = size // (self.among * self.turns)
        part = places // group
        inside = (places >= 0) & (places < size) & (part % self.turns == self.number)
        return inside, part // self.turns * group + places % group

    def _apart(self, whole: Any, axis: int) -> Any:
        """With an axis of slices behind the groups' axis."""
        shape = *whole.shape[:axis], self.among, self.turns, -1, *whole.shape[axis + 1 :]
        return whole.reshape(shape)

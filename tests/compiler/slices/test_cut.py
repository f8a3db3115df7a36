"""Slices of axes: parts one after another, or every so many elements."""

import jax.numpy as jnp
import numpy as np
import pytest

from regal_jax.compiler.slices.cut import Cut

TURNS, SIZE = 3, 24


@pytest.mark.parametrize("among", [1, 4, 8])
@pytest.mark.parametrize("axis", [0, 1])
def test_slices_that_are_put_back_are_the_whole(axis, among):
    whole = jnp.arange(5 * SIZE).reshape((SIZE, 5) if axis == 0 else (5, SIZE))
    made = jnp.zeros_like(whole)
    for number in range(TURNS):
        cut = Cut(TURNS, number, among)
        part = cut.take(whole, axis)
        places = cut.places(jnp.arange(SIZE // TURNS), SIZE)
        np.testing.assert_array_equal(part, jnp.take(whole, places, axis))
        apart = cut.take_apart(whole, axis)
        assert apart.shape[axis : axis + 2] == (among, SIZE // TURNS // among)
        np.testing.assert_array_equal(apart.reshape(part.shape), part)
        made = cut.put(made, part, axis)
    np.testing.assert_array_equal(made, whole)


def test_groups_stay_together():
    """Of a batch of twelve with two elements each, every third example."""
    places = Cut(TURNS, 1, 4).places(jnp.arange(SIZE // TURNS), SIZE)
    assert places.tolist() == [2, 3, 8, 9, 14, 15, 20, 21]


@pytest.mark.parametrize("among", [1, 4, 8])
def test_places_are_found_in_the_slice_that_has_them(among):
    places = jnp.arange(-2, SIZE + 2)
    for number in range(TURNS):
        cut = Cut(TURNS, number, among)
        inside, local = cut.within(places, SIZE)
        own = cut.places(jnp.arange(SIZE // TURNS), SIZE)
        assert places[inside].tolist() == own.tolist()
        assert local[inside].tolist() == list(range(SIZE // TURNS))

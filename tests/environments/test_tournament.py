"""Tournaments against the least of a plain array."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments.tournament import (
    first_least,
    first_within,
    lowered,
    replaced,
    tournament,
)

NOTHING = 9
NUMBERS = st.integers(0, NOTHING)


@pytest.mark.parametrize("count", [1, 2, 5, 16, 17, 40])
@settings(max_examples=20)
@given(data=st.data())
def test_equals_argmin_after_each_change(count, data):
    plain = np.array(data.draw(st.lists(NUMBERS, min_size=count, max_size=count)), np.int32)
    numbers = tournament(jnp.asarray(plain), NOTHING)
    places, changed = st.integers(0, count - 1), min(2, count)
    for _ in range(4):
        assert int(first_least(numbers)) == np.argmin(plain)
        at, value = data.draw(places), data.draw(NUMBERS)
        plain[at] = value
        numbers = replaced(numbers, jnp.int32(at), value)
        at = np.array(data.draw(st.permutations(range(count)))[:changed])
        lower = plain[at] // 2
        plain[at] = lower
        numbers = lowered(numbers, jnp.asarray(at), jnp.asarray(lower))
        np.testing.assert_array_equal(numbers.values.ravel()[:count], plain)


def test_the_first_within_its_blocks_limit():
    numbers = tournament(jnp.array([5, 3, 8, 1, 4, 4, 2]), NOTHING)
    assert numbers.values.shape == (2, 4)
    for limits, place in (([3, 9], 1), ([1, 9], 3), ([0, 9], 4), ([0, 2], 6)):
        assert int(first_within(numbers, jnp.array(limits))) == place


def test_places_beyond_the_end_are_left_out():
    numbers = tournament(jnp.array([3, 1, 2]), NOTHING)
    beyond = numbers.values.size
    same = replaced(lowered(numbers, jnp.array([beyond]), jnp.array([0])), jnp.int32(beyond), 0)
    jax.tree.map(np.testing.assert_array_equal, numbers, same)

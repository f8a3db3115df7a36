"""What a program holds at once, by the model that several regions are chosen with."""

import jax
import jax.numpy as jnp
import pytest

from regal_jax.compiler.barriers.emission import program_of
from regal_jax.compiler.slices.peaks import lightest, peak_of, weight_of
from regal_jax.compiler.slices.regions import regions_of
from tests.compiler.slices.programs import (
    CONTRASTED,
    PERCEPTRON,
    best_region,
    contrasted,
    perceptron,
)

SIDE = 32
ARRAY = 4 * SIDE * SIDE
X = jnp.ones((SIDE, SIDE))


def program(fn, *args):
    return program_of(jax.jit(fn).trace(*args))


@pytest.mark.parametrize(
    ("fn", "arrays"),
    [
        (lambda x, w: x @ w, 1),
        (lambda x, w: jnp.tanh(x @ w) @ w, 2),
        (lambda x, w: jnp.tanh(x @ w) @ (x @ w + 1), 3),
        (lambda x, w: jnp.sin(x) + jnp.cos(x) * w, 1),
        (lambda x, w: [x @ w, w @ x, jnp.exp(x)], 3),
    ],
    ids=["a product", "a chain", "two read", "fused", "results"],
)
def test_arrays_at_once(fn, arrays):
    assert peak_of(program(fn, X, X)) == arrays * ARRAY


def test_what_is_only_read_in_slices_takes_nothing():
    made = program(jax.grad(perceptron), *PERCEPTRON)
    region = best_region(made)
    gradients = sum(leaf.nbytes for leaf in PERCEPTRON[0].values())
    assert gradients <= peak_of(made, region) <= 2 * gradients  # as they are, and transposed
    assert peak_of(made) > 4 * gradients


def test_the_lightest_is_of_those_that_are_wanted():
    made = program(jax.grad(contrasted), *CONTRASTED)
    weight, region = lightest(made, lambda region: True)
    assert weight == weight_of(made, region) < weight_of(made)
    assert weight == min(weight_of(made, one) for one in regions_of(made, again=True))
    assert lightest(made, lambda region: region.divisor == 1) is None

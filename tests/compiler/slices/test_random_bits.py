"""Random bits in slices are those of the whole."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

from regal_jax.compiler.barriers.emission import program_of
from regal_jax.compiler.slices.cut import Cut
from regal_jax.compiler.slices.dims import dims_of
from regal_jax.compiler.slices.emission import in_slices
from regal_jax.compiler.slices.random_bits import bits_of_slice

KEY = jax.random.key(7)


def equation_of(key, shape, dtype):
    (equation,) = jax.make_jaxpr(lambda key: jax.random.bits(key, shape, dtype))(key).jaxpr.eqns
    return equation


@pytest.mark.parametrize("among", [1, 2])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_slices_make_the_whole(dtype, axis, among):
    with jax.enable_x64(dtype == "uint64"):
        shape = (4, 8, 12)
        bits = jax.random.bits(KEY, shape, jnp.dtype(dtype))
        equation = equation_of(KEY, shape, jnp.dtype(dtype))
        for number in range(2):
            cut = Cut(2, number, among)
            made = bits_of_slice(equation, KEY, axis, cut)
            assert made.dtype == bits.dtype
            np.testing.assert_array_equal(made, cut.take(bits, axis))


@pytest.mark.parametrize(
    ("key", "are_sliced"),
    [(KEY, True), (jax.random.key(7, impl="rbg"), False), (jax.random.split(KEY, 4), False)],
    ids=["Threefry", "another generator", "several keys"],
)
def test_bits_of_one_key_of_threefry_alone(key, are_sliced):
    def draw(key):
        return jax.random.bits(key, (4, 8))

    draws = draw if key.shape == () else jax.vmap(draw)
    *_, equation = jax.make_jaxpr(draws)(key).jaxpr.eqns
    assert equation.primitive.name == "random_bits"
    assert bool(dims_of(equation)) is are_sliced


def test_bits_that_are_no_hashes_of_places_are_made_at_once():
    equation = equation_of(KEY, (4, 8), jnp.uint32)
    with jax.threefry_partitionable(False):
        assert dims_of(equation) == []
    assert len(dims_of(equation)) == 2


def test_dropout_is_sliced_and_drops_the_same():
    def loss(weights, x, key):
        for number, w in enumerate(weights):
            kept = jax.random.bernoulli(jax.random.fold_in(key, number), 0.8, (640, 32))
            x = jnp.where(kept, jnp.tanh(x @ w), 0.0)
        return x.sum()

    fn = jax.value_and_grad(loss)
    args = jnp.ones((3, 32, 32)) / 32, jnp.ones((640, 32)), KEY
    traced = jax.jit(fn).trace(*args)
    plain = traced.lower().compile()
    for one in in_slices(traced, program_of(traced), for_cpus=True):
        made = jaxpr_as_fun(one.traced.jaxpr)(*args)
        for own, other in zip(made, jax.tree.leaves(fn(*args)), strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-5)
    assert one.turns == 16
    temporaries = one.traced.lower().compile().memory_analysis().temp_size_in_bytes
    assert temporaries < 0.3 * plain.memory_analysis().temp_size_in_bytes

"""Dimensions of scans: what all turns slice alike."""

import jax
import jax.numpy as jnp
import pytest

from regal_jax.compiler.barriers.emission import program_of
from regal_jax.compiler.slices.loops import RANDOM, dims_of, unseen_flops
from tests.compiler.slices import programs

X = jnp.ones((4, 6))


def scan_of(fn, *args):
    (one,) = (e for e in jax.make_jaxpr(fn)(*args).jaxpr.eqns if e.primitive.name == "scan")
    return one


def dims(body, carry, xs, **options):
    found = dims_of(scan_of(lambda c, xs: jax.lax.scan(body, c, xs, **options), carry, xs))
    return [(dim.inputs, dim.outputs, dim.combine, dim.same) for dim in found]


def test_a_batch_is_carried_and_stacked():
    """The weights' axes aren't: a product adds up what is carried along them."""
    found = dims(lambda x, w: (jnp.tanh(x @ w), x), X, jnp.ones((3, 6, 6)))
    assert found == [((0, None), (0, 1), "", frozenset())]


def test_sums_are_stacked_or_carried():
    stacked = dims(lambda c, x: (c + 1, jnp.sin(x).sum(0)), 0, jnp.ones((3, 4, 6)))
    assert ((None, 1), (None, None), "add", {0}) in stacked
    carried = dims(lambda c, x: (c + x.sum(0), jnp.sin(x)), jnp.ones(6), jnp.ones((3, 4, 6)))
    assert ((None, 1), (None, 1), "add", frozenset()) in carried


@pytest.mark.parametrize(
    "body",
    [
        lambda x, w: (jnp.sin(w.sum(0)) + x, None),
        lambda x, w: (jnp.where(x > 0, w.sum(0), 0.0), None),
        lambda x, w: (x * w.sum(0), None),
        lambda x, w: (x + w.max(0), None),
        lambda x, w: (x + jnp.sort(w, 0)[0], None),
        lambda x, w: (x + w.sum(0).astype(jnp.int32), None),
        lambda x, w: (x + w.astype(jnp.int32).sum(0) // 2, None),
    ],
    ids=["of a sum", "once a sum", "times", "the largest", "sorted", "rounded", "halved"],
)
def test_what_needs_the_whole_sum_is_not_sliced(body):
    along_rows = ((None, 1), (None,), "add", frozenset())
    assert along_rows not in dims(body, jnp.ones(6), jnp.ones((3, 4, 6)))


def test_turns_that_carry_sums_alone_are_sliced():
    along_turns = ((None, 0), (None, 0), "add", frozenset())
    assert along_turns in dims(lambda c, x: (c + x.sum(), jnp.sin(x)), 0.0, X)
    assert ((0,), (0,), "", frozenset()) in dims(lambda c, x: (c, jnp.sin(x)), None, X)


def test_xla_counts_one_turn_however_they_are_shared_out():
    one = scan_of(lambda xs: jax.lax.map(lambda x: jnp.sin(x) @ x, xs), jnp.ones((4, 6)))
    (along_turns,) = (dim for dim in dims_of(one) if dim.body.of_turns)
    assert unseen_flops(one, along_turns, 2) == 0


@pytest.mark.parametrize(
    "body",
    [
        lambda c, x: (0.5 * c + x.sum(), x),
        lambda c, x: (x.sum() - c, x),
        lambda c, x: (c + c, x),
        lambda c, x: (c + jnp.sin(c), x),
        lambda c, x: (c + x.sum(), x + c),
        lambda c, x: (x.sum(), x),
    ],
    ids=["decays", "turns its sign", "doubles", "twice", "is read", "is replaced"],
)
def test_turns_that_need_the_one_before_are_not(body):
    for inputs, *_ in dims(body, 0.0, X):
        assert inputs != (None, 0)


def test_what_is_turned_from_turn_to_turn_is_not_sliced():
    assert dims(lambda x, _: (x.T, None), jnp.ones((4, 4)), None, length=3) == []


def test_effects_stay_in_one():
    def body(x, w):
        jax.debug.callback(lambda x: None, x.sum())
        return jnp.tanh(x * w), None

    assert dims(body, X, jnp.ones(3)) == []


def test_flops_that_are_not_seen():
    """Of three slices XLA sees one, and of what runs whole in each of them one, too."""
    equation = scan_of(programs.nested, *programs.NESTED)
    batch, width = programs.NESTED[1].shape
    (dim,) = dims_of(equation)
    product = 2 * batch * width**2
    assert unseen_flops(equation, dim, 4) == pytest.approx(3 / 4 * product, rel=0.2)
    assert unseen_flops(equation, None, 4) == pytest.approx(3 * product, rel=0.2)


def unseen_of_random_numbers(generator):
    def body(x, key):
        return x * jax.random.bernoulli(key, 0.5, x.shape), None

    keys = jax.random.split(jax.random.key(0, impl=generator), 3)
    equation = scan_of(lambda x, keys: jax.lax.scan(body, x, keys), X, keys)
    return unseen_flops(equation, dims_of(equation)[0], 4)


def test_random_numbers_are_made_in_slices():
    made = RANDOM * X.size
    assert 3 / 4 * made < unseen_of_random_numbers("threefry2x32") < 3 / 2 * made


def test_those_of_other_generators_are_made_in_each_slice():
    assert unseen_of_random_numbers("rbg") > 3 * RANDOM * X.size


def test_fourier_transforms_count_as_xla_counts_them():
    for fn in (jnp.fft.rfft2, jnp.fft.irfft2, jnp.fft.rfft):
        x = jnp.ones((4, 16, 24), jnp.complex64 if fn is jnp.fft.irfft2 else jnp.float32)
        seen = jax.jit(fn).lower(x).compile().cost_analysis()["flops"]
        (transform,) = (
            step.equation
            for op in program_of(jax.jit(fn).trace(x)).ops
            for step in op.steps
            if step.equation.primitive.name == "fft"
        )
        assert unseen_flops(transform, None, 2) == pytest.approx(seen, rel=0.01)

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from regal_jax.compiler.accelerators.accelerator import Accelerator
from regal_jax.compiler.accelerators.specifications import SPECIFICATIONS
from regal_jax.compiler.barriers.emission import program_of
from regal_jax.compiler.barriers.pooling import MOST_PLACES, without_indices
from regal_jax.compiler.ways.attempts import Attempts, by_plan
from regal_jax.compiler.ways.fit import fit
from regal_jax.compiler.ways.judge import judge_of
from regal_jax.compiler.xla.settings import Search
from tests.compiler.barriers.programs import traced

GRADIENT = "select_and_scatter_add"


def primitives(program):
    return [op.steps[-1].equation.primitive.name for op in program.ops]


def run(program, *arguments):
    known = dict(enumerate(arguments)) | dict(program.constants)
    program.run(range(len(program.ops)), known)
    (result,) = program.outputs(known)
    return result


def pooling(*, is_maximum=True, window=(2, 2), strides=None, padding=None):
    """A pooling's gradient as a function of what comes back and of the array."""
    first, op = (-jnp.inf, lax.max) if is_maximum else (jnp.inf, lax.min)
    strides, padding = strides or window, padding or ((0, 0),) * len(window)

    def pool(x):
        return lax.reduce_window(x, np.asarray(first, x.dtype), op, window, strides, padding)

    return pool, lambda source, x: jax.vjp(pool, x)[1](source)[0]


@st.composite
def poolings(draw):
    def each(values):
        return tuple(draw(values) for _ in range(draws))

    draws = draw(st.integers(1, 3))
    window, strides = each(st.integers(1, 3)), each(st.integers(1, 3))
    padding = each(st.tuples(st.integers(0, 2), st.integers(0, 2)))
    of = pooling(is_maximum=draw(st.booleans()), window=window, strides=strides, padding=padding)
    return *of, each(st.integers(3, 7))


SPECIAL = [np.nan, np.inf, -np.inf]


@settings(max_examples=25)
@given(
    poolings(),
    st.sampled_from([jnp.float32, jnp.float16]),
    st.lists(st.sampled_from(SPECIAL), max_size=4),
    st.integers(0, 10**6),
)
def test_gradients_are_the_same_bit_for_bit(of, dtype, special, seed):
    pool, gradient, shape = of
    random = np.random.default_rng(seed)
    x = random.integers(-3, 4, shape).astype(float)  # with ties
    x.flat[random.integers(0, x.size, len(special))] = special
    x = jnp.asarray(x, dtype)
    source = jnp.asarray(random.normal(0, 10, jax.eval_shape(pool, x).shape), dtype)
    program = without_indices(program_of(traced(gradient, source, x)))
    assert GRADIENT not in primitives(program)
    ours = jax.jit(lambda *arguments: run(program, *arguments))(source, x)
    np.testing.assert_array_equal(ours, jax.jit(gradient)(source, x))


@pytest.mark.parametrize(("side", "is_left"), [(5, False), (6, True)])
def test_large_windows_are_left(side, is_left):
    assert (side * side > MOST_PLACES) == is_left
    _, gradient = pooling(window=(side, side))
    shapes = (
        jax.ShapeDtypeStruct((2, 2), jnp.float32),
        jax.ShapeDtypeStruct((2 * side,) * 2, jnp.float32),
    )
    program = program_of(traced(gradient, *shapes))
    assert (GRADIENT in primitives(without_indices(program))) == is_left


def step(x, kernels):
    """The gradients of a small network with max-pooling."""

    def loss(kernels):
        y = x
        for kernel in kernels:
            pool, _ = pooling(window=(1, 2, 2, 1))
            same = lax.conv_general_dilated(
                y, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            y = pool(jax.nn.relu(same))
        return y.sum()

    return jax.grad(loss)(kernels)


X = jnp.asarray(np.random.default_rng(0).normal(size=(8, 32, 32, 4)), jnp.float32)
KERNELS = [jnp.full((3, 3, 4, 8), 0.1), jnp.full((3, 3, 8, 8), 0.1)]


def test_a_program_without_them_needs_less_on_cpus():
    attempts = Attempts(judge_of(traced(step, X, KERNELS), None), Search(evaluations=500))
    plain, lines = attempts.plain.needs, attempts.lines(0)
    once = attempts.of(by_plan(lines.within(lines.plain.peak)))
    assert len(set(once.way.runs)) == len(once.way.runs)  # nothing runs again
    assert once.needs.memory.total < 0.8 * plain.memory.total
    fitted = fit(step, X, KERNELS, memory_budget=once.needs.total, evaluations=500)
    for ours, theirs in zip(
        jax.jit(fitted.function)(X, KERNELS), jax.jit(step)(X, KERNELS), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(("name", "is_left"), [("h100", False), ("v5e", True)])
def test_tpus_have_no_such_arrays(name, is_left):
    judge = judge_of(traced(step, X, KERNELS), Accelerator(name, SPECIFICATIONS[name], ()))
    assert (GRADIENT in primitives(judge.kernels.program)) == is_left

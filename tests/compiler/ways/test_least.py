"""The bound on the bytes that any way to run a program needs."""

import jax
import jax.numpy as jnp
import pytest

from regal_jax.compiler.ways.judge import Way, judge_of
from regal_jax.compiler.ways.least import least_bytes, result_bytes
from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.datasets import jax_train_steps

SIDE = 64
BYTES = 4 * SIDE * SIDE
MATRIX = jax.ShapeDtypeStruct((SIDE, SIDE), jnp.float32)
WIDE = jax.ShapeDtypeStruct((SIDE, 2 * SIDE), jnp.float32)


def judged(function, *shapes, **options):
    return judge_of(jax.jit(function, **options).trace(*shapes), None, slices=False)


def test_donated_arguments_hold_results():
    def step(x, y):
        return x * 2.0, y.sum()

    shapes = [jax.ShapeDtypeStruct((8,), jnp.float32)] * 2
    assert result_bytes(judged(step, *shapes)) == 36
    assert result_bytes(judged(step, *shapes, donate_argnums=0)) == 4


def test_a_product_is_in_memory_whole():
    assert least_bytes(judged(lambda x: jnp.tanh(x @ x).sum(), MATRIX)) == BYTES + 4


def test_what_a_product_reads_of_another_is_beside_it():
    assert least_bytes(judged(lambda x: (x @ x @ x).sum(), MATRIX)) == 2 * BYTES + 4


def test_a_result_lends_its_memory_to_one_other():
    assert least_bytes(judged(lambda x: x @ x @ x @ x, MATRIX)) == 2 * BYTES
    assert least_bytes(judged(lambda x: x @ x, MATRIX)) == BYTES


def test_products_in_slices_need_not_be_whole():
    function = jax.jit(lambda x, y: jnp.tanh(x @ y).sum() * x)
    assert least_bytes(judge_of(function.trace(MATRIX, WIDE), None)) == BYTES


def test_what_is_larger_than_each_result_has_its_own():
    least = least_bytes(judged(lambda x, y: jnp.tanh(x @ y).sum() * x, MATRIX, WIDE))
    assert least == BYTES + 2 * BYTES


def test_an_outer_product_is_elementwise():
    vector = jax.ShapeDtypeStruct((SIDE,), jnp.float32)
    assert least_bytes(judged(lambda x: jnp.outer(x, x).sum(), vector)) == 4


def test_without_products_and_results():
    assert least_bytes(judged(lambda x: (), MATRIX)) == 0


@pytest.mark.parametrize("name", ["lstm/training", "gan/training", "vae/training"])
def test_programs_need_no_less(name):
    one = jax_train_steps.program(name)
    judge = judge_of(one.jitted().trace(*one.shapes), None)
    needs = judge(Way(PLAIN)).needs
    assert 0 < least_bytes(judge) <= needs.total - needs.arguments

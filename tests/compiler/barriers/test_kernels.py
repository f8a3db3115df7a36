"""Which values are in memory, and what that is worth where much would have to wait otherwise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regal_jax as rj
from regal_jax.compiler.barriers.emission import in_segments, program_of
from regal_jax.compiler.barriers.kernels import kernels, with_results_early
from tests.compiler.barriers.programs import kernels_of, random_function, random_order, traced
from tests.compiler.barriers.test_emission import op_by_op, same

SIDE = 64
MATRIX = jax.ShapeDtypeStruct((SIDE, SIDE), jnp.float32)
BYTES = 4 * SIDE * SIDE


def graph_of(function, *shapes):
    return kernels_of(traced(function, *(shapes or (MATRIX,)))).graph


def four_products(x):
    return jnp.tanh(x @ x + x.T @ x + x @ x.T + x.T @ x.T).sum()


def test_a_sum_of_many_products_is_made_one_by_one():
    def function(x):
        products = [x @ x]
        for _ in range(7):
            products.append(products[-1] @ x)
        return sum(jnp.tanh(product) for product in products)

    graph = graph_of(function)
    best = rj.optimize(graph, num_devices=1, evaluations=1000)
    assert graph.inputs.lengths().max() <= 3
    assert best.peak_memory[0] - BYTES <= 4 * BYTES


def test_a_chain_on_one_array_is_one_kernel():
    graph = graph_of(lambda x: jnp.exp(jnp.tanh(x @ x) * 2.0 + 1.0) @ x)
    assert graph.num_ops == 3  # the products, and what the second reads


def test_arguments_are_no_burden():
    def function(*arguments):
        return jnp.tanh(sum(arguments)).sum()

    assert graph_of(function, *[MATRIX] * 5).num_ops == 1


def test_little_is_no_burden():
    small = jax.ShapeDtypeStruct((8, 8), jnp.float32)
    large = graph_of(four_products, MATRIX)
    assert large.num_ops == graph_of(four_products, small).num_ops + 1


@pytest.mark.parametrize("seed", range(4))
def test_programs_compute_the_same_whatever_is_in_memory(seed):
    trace = traced(random_function(seed), MATRIX, MATRIX)
    found = kernels_of(trace)
    made = in_segments(trace, found, random_order(found.graph, seed), {})
    arguments = np.random.default_rng(seed).normal(size=(2, SIDE, SIDE)).astype(np.float32)
    same(op_by_op(made, *arguments), op_by_op(trace, *arguments))


def test_sums_may_wait():
    program = program_of(traced(four_products, MATRIX))
    assert len(kernels(program, sums_wait=True).ops) == len(kernels(program).ops) - 1


def test_only_sums_that_sums_read_are_made_early():
    """What else is read beside a sum of products is in memory anyway, or fuses with its readers."""

    def function(x):
        total = x @ x + x.T @ x + x @ x.T
        return jnp.tanh(total).sum() + jnp.exp(total).sum()

    program = program_of(traced(function, MATRIX))
    assert kernels(program, sums_wait=True).ops == kernels(program).ops


@pytest.mark.parametrize("donated", [frozenset(), frozenset({0})])
def test_results_have_memory_from_the_start(donated):
    def function(x):
        y = jnp.sort(x)
        return y, jnp.sort(y @ y)

    program = program_of(traced(function, MATRIX))
    found = kernels(program, donated)
    early = with_results_early(found)
    assert (early.ops, early.insides) == (found.ops, found.insides)
    schedule = rj.optimize(early.graph, num_devices=1, evaluations=10)
    temporary, own = BYTES, 2 * BYTES - len(donated) * BYTES
    assert schedule.peak_memory[0] == BYTES + own + temporary


def test_what_is_added_up_to_a_result_lies_there():
    def function(x):
        return x @ x + x.T @ x + x @ x.T + x.T @ x.T + jnp.sort(x) @ x

    found = kernels_of(traced(function, MATRIX))
    early = with_results_early(found).graph
    (result,) = np.flatnonzero(found.graph.persistent & (found.graph.producer >= 0))
    there = set(np.flatnonzero(early.size != found.graph.size)) - {result}
    last = found.graph.producer[result]
    sums = [t for t in there if last in found.graph.consumers.row(t)]
    assert (len(there), len(sums)) == (2, 1)  # of three products, and the first of these
    assert set(found.graph.inputs.row(found.graph.producer[sums[0]])) >= there - set(sums)

import os
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.compiler.barriers.emission import with_program
from regal_jax.compiler.recompute.emission import ANY, program_in_runs
from regal_jax.compiler.ways.judge import KEEP_BARRIERS
from tests.compiler.barriers.programs import kernels_of, random_function, random_order, traced
from tests.compiler.barriers.test_emission import PROGRAMS, op_by_op, same


def in_runs(trace, kernels, runs, near):
    """The traced function with its kernels in this sequence."""
    return with_program(trace, program_in_runs(kernels, runs, near))


def with_repeats(order, random):
    """The order with ops that have run put in again."""
    runs = []
    for op in order:
        runs += (
            random.choice(runs, size=min(len(runs), 2)).tolist() if random.random() < 0.5 else []
        )
        runs.append(op)
    return runs


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([0, 2, 100]))
def test_any_runs_compute_the_same(seed, near):
    trace, random = traced(random_function(seed)), np.random.default_rng(seed)
    kernels = kernels_of(trace)
    runs = with_repeats(random_order(kernels.graph, seed), random)
    arguments = random.normal(size=(2, 4, 4)).astype(np.float32)
    same(op_by_op(in_runs(trace, kernels, runs, near), *arguments), op_by_op(trace, *arguments))


def assert_same_twice(function, near):
    """A function computes the same with each of its kernels run twice."""
    trace = traced(function)
    kernels = kernels_of(trace)
    twice = [op for op in range(kernels.graph.num_ops) for _ in range(2)]
    arguments = np.random.default_rng(0).normal(size=(2, 4, 4)).astype(np.float32)
    same(op_by_op(in_runs(trace, kernels, twice, near), *arguments), op_by_op(trace, *arguments))


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_run_twice(name):
    assert_same_twice(PROGRAMS[name], 2)


def skip(a, b):
    """The first product is read at once, and again at the end."""
    x = a @ b
    return jnp.tanh(x @ b) @ b + x


def test_repeated_work_is_not_merged():
    trace = traced(skip)
    made = in_runs(trace, kernels_of(trace), [0, 1, 2, 3, 0, 4], 100)
    options = dict(KEEP_BARRIERS)
    plain, twice = (one.lower().compile(options).cost_analysis()["flops"] for one in (trace, made))
    assert twice - plain >= 2 * 4**3


def test_what_was_just_made_is_read_without_a_barrier():
    trace = traced(skip)
    kernels = kernels_of(trace)
    once = [in_runs(trace, kernels, range(5), near).lower().as_text() for near in (0, 100)]
    assert [text.count("optimization_barrier") for text in once] == [1, 0]


def test_random_numbers_are_the_same_again():
    def noisy(a, b):
        key = jax.random.key(3)
        return jnp.sum(a @ b * jax.random.bernoulli(key, 0.5, (4, 4))) + jnp.sum(a)

    assert_same_twice(noisy, 1)


def gathered(a, b):
    """Gradients of two gathers, each a scatter upon zeros."""
    return jax.grad(lambda x: (jnp.tanh((x @ b)[jnp.array([0, 2])]) @ b).sum() + x[1:3].sum())(a)


def of_ones(a, b):
    """Products with a constant array, far from each other."""
    return jnp.full((4, 4), 0.5) @ jnp.tanh(a @ b) + jnp.tanh(jnp.full((4, 4), 0.5) @ jnp.sin(a))


@pytest.mark.parametrize("near", [0, 2, ANY])
@pytest.mark.parametrize("function", [gathered, of_ones])
def test_constant_arrays_compute_the_same(function, near):
    assert_same_twice(function, near)


EMITTERS = "xla_cpu_use_fusion_emitters"
WITH_SCATTERS = {EMITTERS: True} if EMITTERS in os.environ["XLA_FLAGS"] else {}
"""Compiler options: scatters become loops without the emitters that tests go without."""


def test_what_a_scatter_writes_upon_is_no_copy():
    """Equal zeros of two scatters would be made once, kept, and copied for each."""

    def function(x, indices):
        total = jnp.zeros_like(x).at[indices].add(jnp.sort(x))
        return jnp.sort(total) @ jnp.zeros_like(x).at[indices].add(jnp.sort(total))

    shapes = jax.ShapeDtypeStruct((64, 64), jnp.float32), jax.ShapeDtypeStruct((64,), jnp.int32)
    trace = traced(function, *shapes)
    kernels = kernels_of(trace)
    made = in_runs(trace, kernels, range(kernels.graph.num_ops), ANY)
    options = dict(KEEP_BARRIERS) | WITH_SCATTERS
    plain, ours = (one.lower().compile(options).as_text() for one in (trace, made))
    assert (plain.count(" scatter("), ours.count(" scatter(")) == (2, 2)
    assert zeros_that_are_copied(plain)
    assert not zeros_that_are_copied(ours)


def zeros_that_are_copied(text):
    """Names of broadcasts in a compiled program that copies are made of."""
    return set(re.findall(r" copy\(%?([\w.]*broadcast[\w.]*)\)", text))

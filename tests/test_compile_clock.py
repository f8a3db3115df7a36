"""The clock of compilation."""

import jax
import jax.numpy as jnp
import numba
import pytest

import regal_jax as rj
from regal_jax import compile_clock
from tests.graphs.cases import single_input_graph


def spent(work) -> float:
    before = compile_clock.seconds()
    work()
    return compile_clock.seconds() - before


def test_what_jax_compiles_counts_once():
    double = jax.jit(lambda x: 2 * x)
    assert spent(lambda: double(jnp.ones(3))) > 0
    assert spent(lambda: double(jnp.ones(3))) == 0


def test_what_numba_compiles_counts_once():
    double = numba.njit(lambda x: 2 * x)
    assert spent(lambda: double(3)) > 0
    assert spent(lambda: double(3)) == 0


def test_what_is_compiled_inside_of_something_counts_as_a_part_of_it():
    spans = compile_clock._Spans()
    for begin, end in [(1.0, 2.0), (3.0, 4.0), (0.5, 4.5), (6.0, 7.0)]:
        spans.add(begin, end)
    assert spans.total == pytest.approx(5.0)


def test_schedules_tell_compilation_apart():
    """Also that nothing is compiled where a cheap order is proven optimal."""
    graph = single_input_graph(seed=2, num_ops=9)
    first = rj.optimize(graph, evaluations=700, method="random_search")
    jax.clear_caches()
    again = rj.optimize(graph, evaluations=700, method="random_search")
    assert again.compile_seconds > 0
    assert first.cost == again.cost
    warm = rj.optimize(graph, evaluations=700, method="random_search")
    assert warm.compile_seconds == 0 < warm.seconds
    jax.clear_caches()
    rj.optimize(graph, num_devices=1, method="exact")
    alone = rj.optimize(graph, num_devices=1)
    assert alone.is_optimal
    assert alone.compile_seconds == 0

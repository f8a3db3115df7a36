"""Pure JAX parallel generation against the oracle and the compiled kernel."""

import chex
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments.rcpsp.list_scheduler import machine_arrays, makespan
from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.errors import OptionError
from tests.environments.rcpsp.cases import genes, graph_of, machine_graphs, random_graph
from tests.oracles import machine_scheduling as oracle

SHAPE = (12, 144, 3)

batch = jax.jit(jax.vmap(makespan, in_axes=(None, 0)))


@settings(max_examples=150)
@given(machine_graphs(whole=True), st.data())
def test_equals_oracle_and_kernel(graph, data):
    rows = data.draw(genes(graph.num_ops))
    padded = np.pad(rows, ((0, 0), (0, SHAPE[0] - graph.num_ops)), constant_values=7)
    got = np.asarray(batch(machine_arrays(graph, *SHAPE), padded))
    plain = oracle.plain_machines(graph)
    expected = [oracle.makespan(plain, oracle.parallel(plain, row.tolist())) for row in rows]
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(got, MachineProblem(graph).makespans(rows))


@pytest.mark.parametrize("num_ops", [1, 30, 100])
def test_larger_graphs_and_many_successors(num_ops):
    graph = random_graph(num_ops, num_ops)
    rows = np.random.default_rng(0).standard_normal((4, num_ops)).astype(np.float32)
    expected = MachineProblem(graph).makespans(rows)
    np.testing.assert_array_equal(batch(machine_arrays(graph), rows), expected)
    star = graph_of([(0, op) for op in range(1, 40)], capacity=[3], duration=[2] + [1] * 39)
    rows = np.random.default_rng(0).random((4, 40), np.float32)
    np.testing.assert_array_equal(batch(machine_arrays(star), rows), [15] * 4)


def test_other_durations_within_rounding():
    graph = random_graph(3, 60)
    graph = graph.replace(duration=graph.duration * 0.37)
    rows = np.random.default_rng(0).random((4, 60), np.float32)
    single = graph.replace(capacity=graph.capacity * 99)  # no ties to break differently
    expected = MachineProblem(single).makespans(rows)
    np.testing.assert_allclose(batch(machine_arrays(single), rows), expected, rtol=1e-5)


def test_float64_with_64_bit_types():
    graph = random_graph(3, 60)
    graph = graph.replace(duration=graph.duration * 0.37, capacity=graph.capacity + 2**40)
    rows = np.random.default_rng(0).random((4, 60), np.float32)
    with jax.enable_x64(True):
        got = jax.vmap(makespan, in_axes=(None, 0))(machine_arrays(graph), rows)
        assert got.dtype == np.float64
    np.testing.assert_array_equal(got, MachineProblem(graph).makespans(rows))


def test_one_trace_and_graphs_side_by_side():
    chex.clear_trace_counter()
    traced = jax.jit(chex.assert_max_traces(makespan, n=1))
    graphs = [random_graph(seed, num_ops, 1 + seed) for seed, num_ops in enumerate([1, 20, 33])]
    arrays = [machine_arrays(graph, 40, 80, 3) for graph in graphs]
    rows = np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32)
    expected = [
        MachineProblem(graph).makespans(row[None, : graph.num_ops])[0]
        for graph, row in zip(graphs, rows, strict=True)
    ]
    one_by_one = [traced(array, row) for array, row in zip(arrays, rows, strict=True)]
    np.testing.assert_array_equal(one_by_one, expected)
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *arrays)
    np.testing.assert_array_equal(jax.jit(jax.vmap(makespan))(stacked, rows), expected)


def test_errors():
    graph = graph_of([(0, 1)], capacity=[1], duration=[1, 1])
    with pytest.raises(OptionError, match="no capacity"):
        machine_arrays(graph.replace(capacity=None))
    with pytest.raises(OptionError, match="2 ops, more than 1"):
        machine_arrays(graph, 1, 1, 1)
    with pytest.raises(OptionError, match=r"2\*\*31"):
        machine_arrays(graph.replace(capacity=np.array([2**31])))

"""Random graphs: sizes, determinism, acyclicity, and the densities they promise."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.graphs import random_graphs
from tests.strategies import dags

MODELS = {
    "erdos_renyi": lambda rng, n: random_graphs.erdos_renyi(rng, n, 0.1),
    "barabasi_albert": lambda rng, n: random_graphs.barabasi_albert(rng, n, 2),
    "watts_strogatz": lambda rng, n: random_graphs.watts_strogatz(rng, n, 4, 0.3),
    "stochastic_block_model": lambda rng, n: random_graphs.stochastic_block_model(
        rng, n, 4, 0.3, 0.001
    ),
}


@pytest.mark.parametrize("model", MODELS)
def test_seed_decides_and_edges_are_simple(model):
    first, again, other = (MODELS[model](np.random.default_rng(s), 60) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert first.dtype == np.int32
    assert first.shape[1] == 2
    assert first.min() >= 0
    assert first.max() < 60
    assert np.all(first[:, 0] != first[:, 1])
    assert len(np.unique(np.sort(first, axis=1), axis=0)) == len(first)


def test_edge_counts():
    rng = np.random.default_rng(0)
    assert len(random_graphs.barabasi_albert(rng, 50, 2)) == 2 * 48
    assert len(random_graphs.watts_strogatz(rng, 50, 4, 0.3)) == 100
    expected = 0.05 * 400 * 399 / 2
    assert abs(len(random_graphs.erdos_renyi(rng, 400, 0.05)) - expected) < 5 * expected**0.5


def test_blocks_are_dense_inside():
    edges = random_graphs.stochastic_block_model(np.random.default_rng(0), 82, 4, 1.0, 0.0)
    sizes = sorted(map(len, nx.connected_components(nx.Graph(edges.tolist()))))
    assert sizes == [20, 20, 21, 21]
    assert len(edges) == sum(size * (size - 1) // 2 for size in sizes)


@pytest.mark.parametrize("model", MODELS)
def test_orientation_is_acyclic_and_keeps_the_edges(model):
    rng = np.random.default_rng(3)
    undirected = MODELS[model](rng, 50)
    directed = random_graphs.orient(rng, undirected, 50)
    assert directed.dtype == np.int32
    assert nx.is_directed_acyclic_graph(nx.DiGraph(directed.tolist()))
    same = [np.unique(np.sort(edges, axis=1), axis=0) for edges in (undirected, directed)]
    np.testing.assert_array_equal(*same)


def test_no_edges():
    rng = np.random.default_rng(0)
    none = random_graphs.erdos_renyi(rng, 5, 0.0)
    assert none.shape == (0, 2)
    assert random_graphs.orient(rng, none, 5).shape == (0, 2)


@given(st.integers(1, 40), st.integers(1, 10), st.integers(0, 99))
def test_layered_nodes_have_a_predecessor_in_the_layer_before(num_nodes, width, seed):
    edges = random_graphs.layered(np.random.default_rng(seed), num_nodes, width)
    assert np.all(edges[:, 0] < edges[:, 1])
    adjacent = edges[edges[:, 1] // width - edges[:, 0] // width == 1]
    np.testing.assert_array_equal(np.unique(adjacent[:, 1]), np.arange(width, num_nodes))


def test_layered_densities():
    rng = np.random.default_rng(0)
    edges = random_graphs.layered(rng, 300, 30, density=0.4, skip_probability=0.05)
    gap = edges[:, 1] // 30 - edges[:, 0] // 30
    assert gap.min() == 1
    assert abs(np.mean(gap == 1) * len(edges) / (9 * 900) - 0.4) < 0.03
    assert abs(np.mean(gap > 1) * len(edges) / (36 * 900) - 0.05) < 0.01
    none = random_graphs.layered(rng, 100, 10, density=0.0, skip_probability=0.0)
    assert len(none) == 90


@given(dags())
def test_source_and_sink_are_unique(dag):
    num_nodes, edges = dag
    extended = nx.DiGraph(random_graphs.add_source_and_sink(edges, num_nodes).tolist())
    assert sorted(extended) == list(range(num_nodes + 2))
    assert [v for v, degree in extended.in_degree if degree == 0] == [0]
    assert [v for v, degree in extended.out_degree if degree == 0] == [num_nodes + 1]
    inner = nx.DiGraph(extended.edges)
    inner.remove_nodes_from([0, num_nodes + 1])
    assert sorted(inner.edges) == sorted((u + 1, v + 1) for u, v in edges.tolist())

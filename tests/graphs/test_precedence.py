"""Precedence against networkx and by hand."""

import itertools
import time

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from tests.strategies import computation_graphs


def as_networkx(graph):
    simple = nx.DiGraph()
    simple.add_nodes_from(range(graph.num_ops))
    simple.add_edges_from(graph.edges[:, [0, 2]].tolist())
    return simple


def chain_and_shortcut():
    """0 -> 1 -> 2 and 0 -> 2, with durations 1, 5, 2; op 3 (duration 7) stands alone."""
    return ComputationGraph.create(
        num_ops=4, producer=[0, 1], size=[1, 1], consumers=[[1, 2], [2]], duration=[1, 5, 2, 7]
    )


def random_graph(num_ops, num_edges):
    rng = np.random.default_rng(0)
    pairs = np.sort(rng.integers(num_ops, size=(num_edges, 2)), axis=1)
    pairs = rng.permutation(num_ops)[pairs[pairs[:, 0] < pairs[:, 1]]]
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=pairs[:, 0],
        size=np.ones(len(pairs), int),
        consumers=pairs[:, 1:].tolist(),
    )


def test_by_hand():
    graph = chain_and_shortcut()
    np.testing.assert_array_equal(precedence.levels(graph), [0, 1, 2, 0])
    np.testing.assert_array_equal(precedence.top_levels(graph), [0, 1, 6, 0])
    np.testing.assert_array_equal(precedence.bottom_levels(graph), [8, 7, 2, 7])
    np.testing.assert_array_equal(precedence.transitive_reduction(graph), [[0, 1], [1, 2]])
    length, path = precedence.critical_path(graph)
    assert length == 8.0
    np.testing.assert_array_equal(path, [0, 1, 2])


def test_bit_convention():
    """Op v is bit v % 64 of word v // 64."""
    graph = ComputationGraph.create(
        num_ops=130, producer=[0], size=[1], consumers=[[1, 63, 64, 129]]
    )
    closure = precedence.closure(graph)
    assert closure.dtype == np.uint64
    assert closure.shape == (130, 3)
    assert [int(word) for word in closure[0]] == [2 + 2**63, 1, 2]
    assert not closure[1:].any()


@given(computation_graphs())
def test_closure_is_networkx_closure(graph):
    expected = np.zeros((graph.num_ops, graph.num_ops), bool)
    for before, after in nx.transitive_closure_dag(as_networkx(graph)).edges:
        expected[before, after] = True
    closure = precedence.closure(graph)
    np.testing.assert_array_equal(precedence.unpack(closure), expected)


@given(computation_graphs())
def test_reduction_is_networkx_reduction(graph):
    reduction = precedence.transitive_reduction(graph)
    assert reduction.dtype == np.int32
    assert list(map(tuple, reduction)) == sorted(nx.transitive_reduction(as_networkx(graph)).edges)


@given(computation_graphs())
def test_levels_are_networkx_generations(graph):
    levels = precedence.levels(graph)
    assert levels.dtype == np.int32
    for level, ops in enumerate(nx.topological_generations(as_networkx(graph))):
        np.testing.assert_array_equal(levels[list(ops)], level)


@given(computation_graphs())
def test_critical_path_is_the_longest(graph):
    """networkx weighs edges: each carries the duration of its first op, an extra node the last."""
    weighted = as_networkx(graph)
    weighted.add_edges_from((op, -1) for op in range(graph.num_ops))
    for before, _, data in weighted.edges(data=True):
        data["weight"] = graph.duration[before]
    length, path = precedence.critical_path(graph)
    assert length == nx.dag_longest_path_length(weighted)
    assert length == graph.duration[path].sum()
    assert all(weighted.has_edge(*step) for step in itertools.pairwise(path))


@given(computation_graphs())
def test_path_through_an_op_is_top_plus_bottom_level(graph):
    through = precedence.top_levels(graph) + precedence.bottom_levels(graph)
    length, path = precedence.critical_path(graph)
    assert through.max() == length
    np.testing.assert_array_equal(through[path], length)


def test_several_words_against_networkx():
    graph = random_graph(300, 900)
    expected = nx.to_numpy_array(nx.transitive_closure_dag(as_networkx(graph)), range(300), bool)
    np.testing.assert_array_equal(precedence.unpack(precedence.closure(graph)), expected)
    reduction = nx.transitive_reduction(as_networkx(graph))
    assert list(map(tuple, precedence.transitive_reduction(graph))) == sorted(reduction.edges)


@pytest.mark.parametrize("num_ops", [0, 1, 64, 65])
def test_no_edges(num_ops):
    graph = ComputationGraph.create(num_ops=num_ops, producer=[], size=[], consumers=[])
    assert precedence.unpack(precedence.closure(graph)).shape == (num_ops, num_ops)
    assert precedence.transitive_reduction(graph).shape == (0, 2)
    np.testing.assert_array_equal(precedence.levels(graph), np.zeros(num_ops))
    length, path = precedence.critical_path(graph)
    assert (length, len(path)) == (float(num_ops > 0), int(num_ops > 0))


def test_ten_thousand_ops_take_seconds_at_most():
    """0.2 s measured (plus about 2 s of compiling when numba's cache is empty)."""
    graph = random_graph(10_000, 30_000)
    precedence.transitive_reduction(random_graph(10, 20))
    start = time.perf_counter()
    precedence.transitive_reduction(graph)
    precedence.critical_path(graph)
    assert time.perf_counter() - start < 5


@given(computation_graphs(max_ops=12))
@settings(max_examples=50, deadline=None)
def test_components_are_those_of_networkx(graph):
    links = as_networkx(graph).to_undirected()
    label = precedence.connected_components(graph)
    for component in nx.connected_components(links):
        assert len(set(label[list(component)].tolist())) == 1
    assert len(set(label.tolist())) == nx.number_connected_components(links)


@given(computation_graphs(max_ops=9))
def test_width_is_that_of_the_largest_antichain(graph):
    """Of all subsets of ops."""
    ordered = precedence.unpack(precedence.closure(graph))
    ordered |= ordered.T
    subsets = (np.arange(2**graph.num_ops)[:, None] >> np.arange(graph.num_ops)) & 1
    is_antichain = np.einsum("si,ij,sj->s", subsets, ordered.astype(int), subsets) == 0
    assert precedence.width(graph) == subsets[is_antichain].sum(axis=1).max()


def test_widths_by_hand():
    assert precedence.width(chain_and_shortcut()) == 2
    alone = ComputationGraph.create(num_ops=70, producer=[], size=[], consumers=[])
    assert precedence.width(alone) == 70

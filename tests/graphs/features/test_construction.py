"""Op features against plain graph searches and by hand."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.datasets.task_graphs import task_graph
from regal_jax.errors import OptionError
from regal_jax.graphs.features.construction import makespan_features
from tests.strategies import computation_graphs


def as_networkx(graph):
    found = nx.DiGraph()
    found.add_nodes_from(range(graph.num_ops))
    found.add_edges_from(graph.edges[:, [0, 2]].tolist())
    return found


def longest(network, weight):
    """Of each op, the heaviest path that ends just before it."""
    found = dict.fromkeys(network, 0.0)
    for op in nx.topological_sort(network):
        for after in network.successors(op):
            found[after] = max(found[after], found[op] + weight[op])
    return np.array([found[op] for op in sorted(found)])


def over_largest(counts):
    return counts / max(max(counts), 1)


@given(computation_graphs())
def test_extended_features_are_those_of_plain_searches(graph):
    network = as_networkx(graph)
    back, ops = network.reverse(), range(graph.num_ops)
    ones, duration = np.ones(graph.num_ops), graph.duration
    before, after = longest(network, duration), longest(back, duration) + duration
    length = max(after.max(), 1e-300)
    mean = max(duration.mean(), 1e-300)
    expected = [
        duration / mean,
        np.log1p(duration / mean),
        duration / length,
        before / length,
        after / length,
        (length - before - after) / length,
        over_largest(longest(network, ones)),
        over_largest(longest(back, ones)),
        over_largest(np.array([network.in_degree(op) for op in ops])),
        over_largest(np.array([network.out_degree(op) for op in ops])),
        np.array([len(nx.ancestors(network, op)) for op in ops]) / graph.num_ops,
        np.array([len(nx.descendants(network, op)) for op in ops]) / graph.num_ops,
    ]
    found = makespan_features(graph, "extended")
    assert found.shape == (graph.num_ops, 14)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[:, :12], np.stack(expected, axis=1), rtol=1e-5, atol=1e-6)
    assert np.isfinite(found).all()


def test_places_are_by_critical_path_and_by_duration():
    graph = task_graph([(0, 1), (2, 3)], [1.0, 4.0, 2.0, 0.5])
    by_path, by_duration = makespan_features(graph, "extended")[:, 12:].T
    np.testing.assert_allclose(by_path, [1, 1 / 3, -1 / 3, -1], rtol=1e-6)  # of 5, 4, 2.5, 0.5 us
    np.testing.assert_allclose(by_duration, [-1 / 3, 1, 1 / 3, -1], rtol=1e-6)


@given(computation_graphs(), st.integers(0, 99), st.sampled_from([0.25, 1024.0]))
def test_features_move_with_the_ops_and_do_not_depend_on_the_unit(graph, seed, unit):
    from regal_jax.graphs.rewrites.transforms import permute

    order = np.random.default_rng(seed).permutation(graph.num_ops)
    other = permute(graph, order, np.arange(graph.num_tensors))
    other = other.replace(duration=other.duration * unit)
    for name in ("paper", "extended"):
        found, expected = makespan_features(other, name), makespan_features(graph, name)[order]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_set_of_the_paper_is_the_duration():
    found = makespan_features(task_graph([(0, 1)], [1.0, 3.0]), "paper")
    np.testing.assert_allclose(found, [[0.5], [1.5]])


@pytest.mark.parametrize("name", ["paper", "extended"])
def test_graphs_that_take_no_time_have_finite_features(name):
    for duration in ([0.0, 0.0], [0.0]):
        assert np.isfinite(makespan_features(task_graph([], duration), name)).all()


def test_there_are_two_sets():
    with pytest.raises(OptionError, match="feature_set is 'all': paper or extended"):
        makespan_features(task_graph([], [1.0]), "all")

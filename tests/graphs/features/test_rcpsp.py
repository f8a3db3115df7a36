"""Features of machine problems (F.3): by hand, and that labels don't matter."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.features.ordering import laplacian_encoding
from regal_jax.graphs.features.rcpsp import machine_features, places
from tests.oracles.ordering import graph_of, plain_pairs
from tests.strategies import computation_graphs


def hand_graph(**changes) -> ComputationGraph:
    """0 -> 1 -> 3, 0 -> 2 -> 3 (2 is longer), 0 -> 3, and op 4 alone; ops 1 and 4 on type 1."""
    graph = graph_of(5, [(0, 1), (1, 3), (0, 2), (2, 3), (0, 3)])
    columns = {
        "duration": np.array([2.0, 1.0, 5.0, 3.0, 4.0]),
        "machine_type": np.array([0, 1, 0, 0, 1], np.int32),
        "demand": np.array([1, 3, 2, 0, 1]),
        "capacity": np.array([2, 4]),
    }
    return graph.replace(**columns | changes)


SOURCE, TARGET = np.array([2, 3, 7, 10, 4]), np.array([10, 4, 8, 3, 4])
"""Durations of longest paths, the op's own included."""


def test_paper_features_by_hand():
    found = machine_features(hand_graph(), dimensions=2, num_types=3)
    expected = np.array(
        [  # duration, demand, type, source, target
            [2, 1, 1, 0, 0, 2, 10],
            [1, 3, 0, 1, 0, 3, 4],
            [5, 2, 1, 0, 0, 7, 8],
            [3, 0, 1, 0, 0, 10, 3],
            [4, 1, 0, 1, 0, 4, 4],
        ]
    )
    assert found.dtype == np.float32
    assert found.shape == (5, 4 + 3 + 2)
    scale = np.array([5, 3, 1, 1, 1, 10, 10])
    np.testing.assert_allclose(found[:, :7], expected / scale, rtol=1e-6)
    np.testing.assert_array_equal(found[:, 7:], laplacian_encoding(hand_graph(), 2))


def test_demands_of_one_are_no_feature():
    ones = hand_graph(demand=np.ones(5, np.int64))
    assert not machine_features(ones, num_types=2)[:, 1].any()
    twos = hand_graph(demand=np.full(5, 2))
    np.testing.assert_array_equal(machine_features(twos, num_types=2)[:, 1], 1)


def test_extended_features_by_hand():
    """Loads: (2 * 1 + 5 * 2 + 3 * 0) / 2 = 6 and (1 * 3 + 4 * 1) / 4 = 1.75."""
    found = machine_features(hand_graph(), dimensions=2, feature_set="extended")
    assert found.shape == (5, 19 + 2)
    degrees = ([0, 1, 1, 3, 0], [3, 1, 1, 0, 0])
    columns = [
        *(np.array([2, 1, 5, 3, 4]) / 5, SOURCE / 10, TARGET / 10),
        *(np.array([1, 2, 2, 3, 1]) / 3, np.array([3, 2, 2, 1, 1]) / 3),
        *(np.array(degree) / 3 for degree in degrees),
        *(np.array([6, 1.75, 6, 6, 1.75]) / 6, np.array([3, 2, 3, 3, 2]) / 3),
        *([0.5, 0.75, 1, 0, 0.25], np.array([0, 4, 0, 0, 6]) / 10, np.ones(5)),
        [1, -0.25, 0.5, -1, -0.25],  # critical path: 10, 8, 4 = 4, 3
        [1, 0.25, 0.25, -0.75, -0.75],  # operations remaining: 3, 2 = 2, 1 = 1
        [0.5, 1, -1, 0, -0.5],  # shortest duration
        [0.5, -0.5, 0.5, 0.5, -1],  # least slack: 0 three times
        [0, 0.5, 1, -1, -0.5],  # share of the capacity
        [1, 0, 0, -1, 0],  # critical path by type
        [1, -1, 0, -1, 1],  # path before the op by type: 0, 2, 7 and 2, 0
    ]
    np.testing.assert_allclose(found[:, :19], np.stack(columns, axis=1), atol=1e-6)
    np.testing.assert_array_equal(found[:, 19:], laplacian_encoding(hand_graph(), 2))


def test_places():
    assert places(np.array([3.0, 9.0, 5.0])).tolist() == [-1, 1, 0]
    assert places(np.array([2.0, 2.0, 7.0, 7.0, 1.0])).tolist() == [-0.25, -0.25, 0.75, 0.75, -1]
    assert places(np.array([4.0])).tolist() == [0]
    assert places(np.zeros(0)).tolist() == []
    group = np.array([0, 5, 0, 5, 7])
    assert places(np.array([1.0, 2.0, 3.0, 2.0, 9.0]), group).tolist() == [-1, 0, 1, 0, 0]


@pytest.mark.parametrize("feature_set", ["paper", "extended"])
@given(graph=computation_graphs(machine_types=3), seed=st.integers(0, 99))
def test_relabelling_permutes(feature_set, graph, seed):
    label = np.random.default_rng(seed).permutation(graph.num_ops)
    old = np.argsort(label)
    pairs = [(label[before], label[after]) for before, after in plain_pairs(graph)]
    columns = ("duration", "machine_type", "demand")
    moved = {name: getattr(graph, name)[old] for name in columns}
    other = graph_of(graph.num_ops, pairs).replace(capacity=graph.capacity, **moved)
    options = {"dimensions": 0, "feature_set": feature_set, "num_types": 3}
    before, after = (machine_features(one, **options) for one in (graph, other))
    np.testing.assert_allclose(after[label], before, atol=1e-6)


@pytest.mark.parametrize("feature_set", ["paper", "extended"])
@given(graph=computation_graphs(machine_types=3))
def test_normalised(feature_set, graph):
    """Durations, demands and all else may be 0."""
    found = machine_features(graph, dimensions=0, feature_set=feature_set, num_types=3)
    assert found.shape == (graph.num_ops, 7 if feature_set == "paper" else 19)
    assert np.isfinite(found).all()
    assert np.abs(found).max(initial=0) <= 1 + 1e-6
    scaled = found if feature_set == "paper" else found[:, :9]
    assert np.isin(scaled.max(axis=0), [0, 1]).all()


@given(computation_graphs(machine_types=3), st.sampled_from([0.001, 1000.0]))
def test_the_unit_of_time_does_not_matter(graph, unit):
    for feature_set in ("paper", "extended"):
        options = {"dimensions": 0, "feature_set": feature_set, "num_types": 3}
        scaled = graph.replace(duration=graph.duration * unit)
        before, after = (machine_features(one, **options) for one in (graph, scaled))
        same = np.abs(before - after).max(axis=0) < 1e-5
        # Paths of equal length may differ by rounding, and then in their places.
        assert same[: 12 if feature_set == "extended" else None].all()


def test_no_ops():
    none = graph_of(0, []).replace(capacity=np.array([1]))
    assert machine_features(none, dimensions=3).shape == (0, 8)
    assert machine_features(none, dimensions=3, feature_set="extended").shape == (0, 22)


def test_errors():
    with pytest.raises(OptionError, match="feature_set is 'all': paper or extended"):
        machine_features(hand_graph(), feature_set="all")
    with pytest.raises(OptionError, match="dimensions is -1"):
        machine_features(hand_graph(), dimensions=-1, num_types=2)
    with pytest.raises(OptionError, match="has machine type 1, the policy is for 1 types"):
        machine_features(hand_graph(), num_types=1)
    with pytest.raises(OptionError, match="no capacities"):
        machine_features(hand_graph(capacity=None), feature_set="extended")

"""Layered graphs, checked against the text of the paper's appendix A."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.datasets import layered
from regal_jax.datasets.layered import UNIT, layered_graph, layered_graphs
from regal_jax.errors import OptionError

SIZES = st.integers(1, 200)
SEEDS = st.integers(0, 2**32 - 1)


def layers(graph):
    """int[O], the layer of each op; and the ops of each layer."""
    layer = np.array(graph.extra["ops"]["layer"])
    return layer, [np.flatnonzero(layer == index) for index in range(layer.max() + 1)]


def adjacency(graph):
    matrix = np.zeros((graph.num_ops, graph.num_ops), bool)
    matrix[tuple(graph.op_pairs.T)] = True
    return matrix


@settings(max_examples=80, deadline=None)
@given(SEEDS, SIZES)
def test_structure(seed, num_ops):
    """Layers in order; every op has edges to the adjacent layers; as many as eq. 13 says."""
    graph = layered_graph(seed, num_ops)
    layer, members = layers(graph)
    assert graph.num_ops == num_ops
    assert np.all(np.diff(layer) >= 0)
    assert min(len(ops) for ops in members) >= 1
    matrix = adjacency(graph)
    for upper, lower in itertools.pairwise(members):
        between = matrix[np.ix_(upper, lower)]
        assert between.any(axis=0).all()
        assert between.any(axis=1).all()
        wide, product = max(between.shape), between.size
        assert between.sum() == round(product * 0.2 + 0.8 * wide)
        check_cones(between if len(upper) >= len(lower) else between.T)


def check_cones(between):
    """Ops of the wider layer have as many edges, give or take one, to contiguous ranges in order.

    Each range holds the place right below its op.
    """
    wide, narrow = between.shape
    degree = between.sum(axis=1)
    assert degree.max() - degree.min() <= 1
    first, last = between.argmax(axis=1), narrow - 1 - between[:, ::-1].argmax(axis=1)
    np.testing.assert_array_equal(last - first + 1, degree)
    below = np.arange(wide) * (narrow - 1) / max(wide - 1, 1)
    assert np.all(first - 0.5 <= below)
    assert np.all(below <= last + 0.5)
    inside = (first > 0) & (last < narrow - 1)
    assert np.all(np.abs((first + last) / 2 - below)[inside] <= 1.0)


@settings(max_examples=60, deadline=None)
@given(SEEDS, SIZES)
def test_edges_go_down_and_skips_are_counted(seed, num_ops):
    graph = layered_graph(seed, num_ops)
    layer, members = layers(graph)
    before, after = layer[graph.op_pairs].T
    assert np.all(before < after)
    skips, adjacent = np.sum(after - before >= 2), np.sum(after - before == 1)
    drawn = math.ceil(adjacent * 0.14 / 0.86)
    assert skips <= drawn  # a repeated one counts once
    assert (skips > 0) == (len(members) >= 3)


def test_skip_connections_go_nearly_straight_down():
    """The target's relative place is at most 0.2 to the right, never to the left."""
    for seed in range(10):
        graph = layered_graph(seed, 500)
        layer, members = layers(graph)
        width = np.array([len(ops) for ops in members])
        place = np.arange(500) - np.searchsorted(layer, layer)
        pairs = graph.op_pairs
        source, target = pairs[np.diff(layer[pairs], axis=1)[:, 0] >= 2].T
        left, right = place / width[layer], (place + 1) / width[layer]
        assert np.all(right[target] > left[source] - 1e-9)
        assert np.all(left[target] < right[source] + 0.2)
        assert len(source) > 200


@settings(max_examples=60, deadline=None)
@given(SEEDS, SIZES, st.floats(0.01, 0.9), st.floats(0.0, 1.0))
def test_widths_within_bounds(seed, num_ops, width_factor, variability):
    """Eqs. 11 and 12, with the target of 1..num_ops layers and no empty range."""
    graph = layered_graph(seed, num_ops, width_factor=width_factor, width_variability=variability)
    target = min(math.ceil(math.sqrt(num_ops * (1 / width_factor - 1))), num_ops)
    low = max(math.ceil(num_ops / target * (1 - variability)), 1)
    high = max(math.floor(num_ops / target * (1 + variability)), low)
    widths = [len(ops) for ops in layers(graph)[1]]
    assert all(low <= width <= high for width in widths[:-1])
    assert 1 <= widths[-1] <= high


def test_all_widths_are_drawn():
    """Both ends of the range, over many graphs: of 100 ops with W = 1/2, 10 layers of 3..17."""
    widths = set()
    for seed in range(60):
        widths |= {len(ops) for ops in layers(layered_graph(seed, 100, width_factor=0.5))[1][:-1]}
    assert widths == set(range(3, 18))


def test_mean_number_of_layers_follows_the_width_factor():
    for factor in (0.25, 0.5):
        counts = [len(layers(layered_graph(s, 400, width_factor=factor))[1]) for s in range(40)]
        target = math.sqrt(400 * (1 / factor - 1))
        assert abs(np.mean(counts) / target - 1) < 0.1


def test_width_factor_zero_is_a_chain():
    graph = layered_graph(1, 9, width_factor=0.0, skip_density=0.0)
    assert graph.op_pairs.tolist() == [[op, op + 1] for op in range(8)]


def test_full_density():
    graph = layered_graph(1, 60, edge_density=1.0, skip_density=0.0)
    layer, _ = layers(graph)
    np.testing.assert_array_equal(adjacency(graph), layer[None, :] - layer[:, None] == 1)


def test_one_cost_per_layer():
    graph = layered_graph(4, 300)
    for ops in layers(graph)[1]:
        assert len(np.unique(graph.size[ops])) == len(np.unique(graph.workspace[ops])) == 1
    assert len(np.unique(graph.size)) > 5
    assert not np.array_equal(graph.size, graph.workspace)
    assert graph.size.min() >= 1
    assert graph.workspace.min() >= 1
    np.testing.assert_array_equal(graph.producer, np.arange(300))
    np.testing.assert_array_equal(graph.duration, 1.0)


def test_costs_are_the_truncated_mixture():
    """Mean and shares against the mixture's own, by integrating its density over x > 0."""
    costs = layered._costs(np.random.default_rng(0), 200_000) / UNIT
    weights, means, deviations = [0.3, 0.3, 0.3, 0.1], [0.5, 1, 3, 5], [0.5, 1, 1, 1]
    x = np.linspace(0, 15, 30_001)
    density = sum(
        w / d * np.exp(-(((x - m) / d) ** 2) / 2)
        for w, m, d in zip(weights, means, deviations, strict=True)
    )
    density /= density.sum()
    assert np.mean(costs) == pytest.approx((x * density).sum(), rel=0.01)
    for limit in (0.5, 1, 2, 4):
        assert np.mean(costs < limit) == pytest.approx(density[x < limit].sum(), abs=0.005)


def test_seed_decides():
    assert layered_graph(5, 50) == layered_graph(5, 50)
    assert layered_graph(5, 50).fingerprint != layered_graph(6, 50).fingerprint
    graph = layered_graph(5, 50)
    assert (graph.name, graph.family, graph.source) == ("layered 50 5", "layered", "synthetic")


def test_sets_of_different_seeds_are_disjoint():
    train, test = layered_graphs(0, 20, 30), layered_graphs(1, 20, 30)
    assert len({graph.fingerprint for graph in train + test}) == 40
    assert layered_graphs(0, 5, 30) == train[:5]
    assert train[3].name == "layered 30 0-3"
    assert train[0].fingerprint == layered_graph(0, 30).fingerprint


@pytest.mark.parametrize(
    "options",
    [
        {"num_ops": 0},
        {"width_factor": 1.5},
        {"width_factor": float("nan")},
        {"width_variability": -0.1},
        {"edge_density": 2.0},
        {"skip_density": 1.0},
    ],
)
def test_option_errors(options):
    with pytest.raises(OptionError, match=next(iter(options))):
        layered_graph(0, **{"num_ops": 10, **options})


@pytest.mark.parametrize(("seed", "count"), [(-1, 2), (2**32, 2), (0, -1)])
def test_bad_sets(seed, count):
    with pytest.raises(OptionError):
        layered_graphs(seed, count, 10)

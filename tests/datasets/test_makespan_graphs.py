"""Synthetic graphs of U(0, 1) run times: statistics against the recipes, and disjoint splits."""

import itertools
import math

import numpy as np
import pytest

from regal_jax.datasets import makespan_graphs as module
from regal_jax.datasets.flow_corpora import most_speedup
from regal_jax.datasets.layered import layered_graph
from regal_jax.datasets.makespan_graphs import FAMILIES, makespan_graph, makespan_graphs
from regal_jax.errors import OptionError


def mean_close(values, mean, deviation):
    """Whether a mean of independent numbers is within five standard errors."""
    return abs(np.mean(values) - mean) < 5 * deviation / math.sqrt(len(values))


@pytest.mark.parametrize("family", FAMILIES)
def test_columns(family):
    graph = makespan_graph(family, 3)
    assert graph.num_ops == graph.num_tensors == 50
    np.testing.assert_array_equal(graph.producer, np.arange(50))
    assert graph.capacity is None
    assert graph.size.min() >= 1
    assert len(np.unique(graph.size)) > 1
    assert (graph.name, graph.family, graph.source) == (f"{family} 50 3", family, "synthetic")


@pytest.mark.parametrize("family", FAMILIES)
def test_durations_are_uniform(family):
    durations = np.concatenate([makespan_graph(family, (9, i)).duration for i in range(60)])
    assert 0 <= durations.min() < 0.01
    assert 0.99 < durations.max() < 1
    assert mean_close(durations, 0.5, 12**-0.5)
    assert mean_close(durations < 0.2, 0.2, 0.4)


def test_sizes_are_those_of_the_recipes():
    sizes = np.concatenate([makespan_graph("watts_strogatz", (9, i)).size for i in range(60)])
    assert mean_close(sizes, 50, 10)
    assert sizes.std() == pytest.approx(10, rel=0.05)
    layered = layered_graph((1, 4), 40)
    np.testing.assert_array_equal(makespan_graph("layered", (1, 4), 40).size, layered.size)
    np.testing.assert_array_equal(makespan_graph("layered", (1, 4), 40).op_pairs, layered.op_pairs)


def edges_of(family, count=40):
    return [makespan_graph(family, (9, i)).op_pairs for i in range(count)]


def test_erdos_renyi_edges():
    """5 % of all pairs."""
    edges = edges_of("erdos_renyi")
    assert mean_close([len(pairs) for pairs in edges], 1225 * 0.05, math.sqrt(1225 * 0.0475))


def test_block_model_edges():
    """Blocks of 13, 13, 12 and 12 ops in a row: 0.3 inside, 0.001 between."""
    block = np.repeat(np.arange(4), [13, 13, 12, 12])
    edges = edges_of("stochastic_block_model")
    within = [np.sum(block[pairs[:, 0]] == block[pairs[:, 1]]) for pairs in edges]
    inside = 2 * 13 * 12 / 2 + 2 * 12 * 11 / 2
    assert mean_close(within, 0.3 * inside, math.sqrt(inside * 0.21))
    across = [len(pairs) - own for pairs, own in zip(edges, within, strict=True)]
    assert mean_close(across, 0.001 * (1225 - inside), 1)


def test_watts_strogatz_edges():
    """Four neighbours each, 100 edges; 0.3 of them rewired away from the ring."""
    edges = edges_of("watts_strogatz")
    assert {len(pairs) for pairs in edges} == {100}
    distance = [np.abs(pairs[:, 0] - pairs[:, 1]) for pairs in edges]
    near = [np.mean(np.minimum(far, 50 - far) <= 2) for far in distance]
    assert 0.68 < np.mean(near) < 0.75  # a rewired edge may come back near


def test_barabasi_albert_edges():
    """A star of three, then two edges for each new op, more of them to those that have many."""
    edges = edges_of("barabasi_albert")
    assert {len(pairs) for pairs in edges} == {2 * 48}
    degree = np.mean([np.bincount(pairs.ravel(), minlength=50) for pairs in edges], axis=0)
    assert degree.min() >= 2
    assert degree[:5].min() > 2 * degree[-20:].max()


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"layered"}))
def test_edges_point_along_a_random_order(family):
    edges = np.concatenate(edges_of(family))
    assert 0.45 < np.mean(edges[:, 0] < edges[:, 1]) < 0.55


def test_families_take_turns():
    families = {
        split: [graph.family for graph in makespan_graphs(split, 20, 12)] for split in module.COUNTS
    }
    assert families["train"] == ["erdos_renyi", "layered"] * 10
    assert families["valid"] == families["train"]
    assert families["test"] == [*FAMILIES] * 4
    assert len(FAMILIES) == 5


def test_most_graphs_can_be_sped_up_threefold():
    """E.6; below are layered ones only, at most one in four of them."""
    narrow = [graph for graph in makespan_graphs("train", 200) if most_speedup(graph) < 3]
    assert {graph.family for graph in narrow} == {"layered"}
    assert len(narrow) <= 25
    assert min(map(most_speedup, narrow)) > 2


def test_splits_are_disjoint_and_reproducible():
    sets = {split: list(makespan_graphs(split, 30)) for split in module.COUNTS}
    every = list(itertools.chain(*sets.values()))
    assert len({graph.fingerprint for graph in every}) == 90
    assert len({graph.name for graph in every}) == 90
    assert len({graph.duration[0] for graph in every}) == 90
    assert list(makespan_graphs("test", 7)) == sets["test"][:7]
    assert makespan_graph("layered", (0, 3)) == sets["train"][3]


def test_numbers_of_graphs():
    assert module.COUNTS == {"train": 1000, "valid": 50, "test": 50}
    assert sum(1 for _ in makespan_graphs("test", num_ops=5)) == 50


@pytest.mark.parametrize(
    ("family", "num_ops"),
    [
        ("barabasi", 50),
        ("layered", 0),
        ("erdos_renyi", 0),
        ("stochastic_block_model", 3),
        ("watts_strogatz", 3),
        ("barabasi_albert", 2),
    ],
)
def test_graph_options(family, num_ops):
    with pytest.raises(OptionError):
        makespan_graph(family, 0, num_ops)


@pytest.mark.parametrize("family", FAMILIES)
def test_smallest_graphs(family):
    least = {"stochastic_block_model": 4, "watts_strogatz": 4, "barabasi_albert": 3}.get(family, 1)
    assert makespan_graph(family, 0, least).num_ops == least


@pytest.mark.parametrize("arguments", [("validation",), ("test", -1)])
def test_set_options(arguments):
    """Told at once, before the first graph is asked for."""
    with pytest.raises(OptionError):
        makespan_graphs(*arguments)

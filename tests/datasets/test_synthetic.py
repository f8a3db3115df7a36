"""REGAL's synthetic recipe, checked against what is known of it."""

import itertools

import numpy as np
import pytest

from regal_jax.datasets.synthetic import (
    MODELS,
    RegalSyntheticConfig,
    regal_synthetic,
    regal_synthetic_dataset,
)
from regal_jax.errors import OptionError
from regal_jax.graphs.topology_hash import topology_hash


@pytest.fixture(scope="module")
def graphs():
    return list(regal_synthetic_dataset(0, 60))


def test_seed_decides():
    assert regal_synthetic(5) == regal_synthetic(5)
    assert regal_synthetic(5) != regal_synthetic(6)


def test_node_counts_and_models(graphs):
    nodes = [graph.num_ops - 2 for graph in graphs]
    assert min(nodes) >= 50
    assert max(nodes) <= 200
    assert np.std(nodes) > 20
    counts = [sum(graph.source.endswith(model) for graph in graphs) for model in MODELS]
    assert sum(counts) == len(graphs)
    assert min(counts) >= 5


def test_one_source_and_one_sink(graphs):
    for graph in graphs:
        np.testing.assert_array_equal(np.flatnonzero(graph.inputs.lengths() == 0), [0])
        np.testing.assert_array_equal(
            np.flatnonzero(graph.outputs.lengths() == 0), [graph.num_ops - 1]
        )


def test_at_most_one_data_and_one_control_tensor_an_op(graphs):
    for graph in graphs:
        kinds = graph.producer * 2 + (graph.size == 0)
        assert len(np.unique(kinds)) == graph.num_tensors
        assert not graph.persistent.any()
        assert graph.consumers.lengths().min() >= 1
        assert np.all(graph.size[graph.producer == 0] == 0)


def test_share_of_control_edges(graphs):
    """Edges of the source left out: they are all control."""
    inner = [graph.edges[graph.edges[:, 0] > 0, 1] for graph in graphs]
    control = np.concatenate([graph.size[t] == 0 for graph, t in zip(graphs, inner, strict=True)])
    assert len(control) > 10_000
    assert abs(control.mean() - 0.1) < 0.01


def test_sizes_are_normal(graphs):
    sizes = np.concatenate([graph.size[graph.size > 0] for graph in graphs])
    assert abs(sizes.mean() - 50) < 0.5
    assert abs(sizes.std() - 10) < 0.5
    tiny = regal_synthetic(0, config=RegalSyntheticConfig(mean_size=0.0))
    assert tiny.size[tiny.size > 0].min() == 1


@pytest.mark.parametrize("run_time", ["inputs_and_outputs", "outputs"])
def test_run_times_without_noise_are_sums_of_sizes(run_time):
    config = RegalSyntheticConfig(run_time=run_time, deviation_run_time=0.0)
    graph = regal_synthetic(1, config=config)
    assert graph.duration[0] == graph.duration[-1] == 0
    for op in range(1, graph.num_ops - 1):
        moved = graph.size[graph.outputs.row(op)].sum()
        if run_time == "inputs_and_outputs":
            moved += graph.size[graph.inputs.row(op)].sum()
        assert graph.duration[op] == moved


def test_run_time_noise(graphs):
    ratios = []
    for graph, op in itertools.product(graphs[:20], range(1, 40)):
        moved = graph.size[graph.outputs.row(op)].sum() + graph.size[graph.inputs.row(op)].sum()
        ratios.append(graph.duration[op] / moved if moved else 1.0)
    assert abs(np.mean(ratios) - 1) < 0.02
    assert abs(np.std(ratios) - 0.1) < 0.02


def test_topologies_are_unique_and_named(graphs):
    names = {f"graph_{topology_hash(graph)}" for graph in graphs}
    assert names == {graph.name for graph in graphs}
    assert len(names) == len(graphs)


def test_repeated_topologies_are_left_out():
    """Trees of four nodes are few, so seeds repeat topologies early."""
    config = RegalSyntheticConfig(
        min_nodes=4, max_nodes=4, ba_attachments=1, ws_neighbours=2, ws_probability=0.0
    )
    hashes = [graph.name for graph in regal_synthetic_dataset(0, 8, config=config)]
    drawn = [regal_synthetic((0, index), config=config).name for index in range(50)]
    assert hashes == list(dict.fromkeys(drawn))[:8]
    assert len(set(drawn)) < 50


def test_bad_configurations():
    with pytest.raises(OptionError, match="min_nodes"):
        RegalSyntheticConfig(min_nodes=2)
    with pytest.raises(OptionError, match="run_time"):
        RegalSyntheticConfig(run_time="fast")

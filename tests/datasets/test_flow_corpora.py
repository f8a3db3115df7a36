"""The real graphs of the experiments: their splits, sizes and speedups."""

import re
from pathlib import Path

import numpy as np
import pytest

from regal_jax.datasets import flow_corpora
from regal_jax.datasets.flow_corpora import most_speedup, real_graphs, single_graph, training_pool
from regal_jax.datasets.zoo import load, splits
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.list_scheduling.heuristics import critical_path


@pytest.fixture(scope="module")
def graphs():
    return {split: real_graphs(split) for split in ("train", "test")} | {"single": [single_graph()]}


def list_speedup(graph):
    problem = PlacementProblem(graph, 4, "makespan")
    schedule = problem.costed(critical_path(graph, Platform(4)))
    return graph.duration.sum() / schedule.makespan


def test_names(graphs):
    for split, names in flow_corpora.REAL_GRAPHS.items():
        assert [graph.name for graph in graphs[split]] == list(names)
    assert graphs["single"][0].name == flow_corpora.SINGLE


def test_documented_sizes_and_speedups(graphs):
    """The numbers beside the names."""
    text = Path(flow_corpora.__file__).read_text()
    noted = {
        name: (int(ops), float(speedup))
        for name, ops, speedup in re.findall(r'"(\S+)",?  # (\d+), (\d\.\d\d)', text)
    }
    ops, speedup = re.search(r'^SINGLE = .*\n"""(\d+) ops, (\d\.\d\d)', text, re.MULTILINE).groups()
    noted[flow_corpora.SINGLE] = (int(ops), float(speedup))
    every = [graph for split in graphs.values() for graph in split]
    assert {graph.name for graph in every} == set(noted)
    for graph in every:
        assert graph.num_ops == noted[graph.name][0]
        assert list_speedup(graph) == pytest.approx(noted[graph.name][1], abs=0.0051)


def test_training_graphs_are_like_the_paper_s(graphs):
    """Eight, of eight families, below 100 ops; speedups of 1.5 and beyond 3."""
    train = graphs["train"]
    assert len(train) == len({graph.family for graph in train}) == 8
    assert max(graph.num_ops for graph in train) < 100
    speedups = [min(4, most_speedup(graph)) for graph in train]
    assert min(speedups) < 1.6
    assert sum(speedup > 3 for speedup in speedups) >= 2


def test_test_graphs_are_like_the_paper_s(graphs):
    """At least twelve, each of its own family, up to 128 ops; some below 1.5, some beyond 3."""
    test = graphs["test"]
    assert len({graph.family for graph in test}) == len(test) >= 12
    assert 12 <= min(graph.num_ops for graph in test) <= 20
    assert max(graph.num_ops for graph in test) == 128
    speedups = [min(4, most_speedup(graph)) for graph in test]
    assert min(speedups) < 1.5
    assert sum(speedup > 3 for speedup in speedups) >= 4


def test_test_graphs_are_of_unseen_architectures(graphs):
    """Not only of other families: no training graph has the architecture in another frontend."""
    seen = {splits.architecture(row["family"]) for row in load.card() if row["split"] != "test"}
    assert len(seen) > 300
    assert not seen & {splits.architecture(graph.family) for graph in graphs["test"]}


def test_transfers_matter(graphs):
    """Every graph has tensors of different sizes to exchange."""
    for graph in [*graphs["train"], *graphs["test"], *graphs["single"]]:
        assert len(np.unique(graph.size[np.unique(graph.edges[:, 1])])) >= 2
    (single,) = graphs["single"]
    assert len(np.unique(single.size[np.unique(single.edges[:, 1])])) == 12


def test_pool():
    pool = training_pool()
    assert len(pool) > 400
    assert set(splits.splits(pool)) == {"train"}
    assert min(graph.num_ops for graph in pool) >= 25
    assert max(graph.num_ops for graph in pool) <= 400
    assert min(map(most_speedup, pool)) >= 1.3


def test_pool_of_tests_has_unseen_architectures():
    pool = training_pool("test", max_ops=128)
    assert len(pool) > 70
    seen = {splits.architecture(row["family"]) for row in load.card() if row["split"] != "test"}
    assert not seen & {splits.architecture(graph.family) for graph in pool}


def test_limits_of_the_pool(monkeypatch):
    """Independent ops: as many are the speedup."""
    free = {
        n: ComputationGraph.create(num_ops=n, producer=[], size=[], consumers=[])
        for n in range(1, 7)
    }
    monkeypatch.setattr(load, "model_zoo", lambda split: list(free.values()))
    assert training_pool(min_ops=2, max_ops=5, min_speedup=3) == [free[3], free[4], free[5]]
    assert training_pool(min_ops=4, max_ops=4, min_speedup=1.3) == [free[4]]


def test_most_speedup_by_hand():
    fork = ComputationGraph.create(
        num_ops=3, producer=[0], size=[1], consumers=[[1, 2]], duration=[1, 2, 3]
    )
    assert most_speedup(fork) == 6 / 4
    assert most_speedup(fork.replace(duration=np.zeros(3))) == 1


def test_unknown_split():
    with pytest.raises(OptionError, match="'valid' is none of train, test"):
        real_graphs("valid")


def test_other_sizes(graphs):
    (graph,) = graphs["single"]
    same, drawn = (flow_corpora.with_sizes(graph, spread, seed=3) for spread in (0.0, 2.0))
    counts = graph.size > 0
    assert set(same.size[counts]) == {10**6}
    assert not same.size[~counts].any()
    assert not drawn.size[~counts].any()
    logarithms = np.log(drawn.size[counts] / 1e6)
    assert logarithms.std() == pytest.approx(2, rel=0.2)
    wider = flow_corpora.with_sizes(graph, 3.0, seed=3)
    assert np.log(wider.size[counts] / 1e6) == pytest.approx(1.5 * logarithms, abs=0.05)
    assert not np.array_equal(drawn.size, flow_corpora.with_sizes(graph, 2.0, seed=4).size)
    np.testing.assert_array_equal(drawn.duration, graph.duration)


@pytest.mark.parametrize("spread", [-1.0, 5.0, float("nan")])
def test_spreads_out_of_range(spread, graphs):
    with pytest.raises(OptionError, match=r"spread must be between 0 and 4"):
        flow_corpora.with_sizes(graphs["single"][0], spread, seed=0)

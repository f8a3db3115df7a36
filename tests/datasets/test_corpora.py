"""What experiments train, validate and test on."""

import numpy as np
import pytest

from regal_jax.datasets import corpora
from regal_jax.datasets.zoo import splits
from regal_jax.errors import RegalError
from regal_jax.graphs import files
from tests.policies.cases import chain, random_graph


def variants(graphs, **changes):
    options = {"copies": (1, 2, 3), "num_microbatches": 1, "max_ops": 100} | changes
    return corpora.variants(graphs, options.pop("copies"), **options)


def test_variants_are_named_and_deterministic():
    graphs = [random_graph(0), random_graph(1)]
    assert [g.name for g in variants(graphs[:1])] == [f"random 0#1x{n}" for n in (1, 2, 3)]
    assert variants(graphs) == variants(graphs)
    assert variants(graphs[:1]) == variants(graphs)[:3]


def test_variants_split_into_microbatches_and_leave_out_large_graphs():
    graphs = [random_graph(0, 8), random_graph(1, 12), chain(1)]
    found = variants(graphs, num_microbatches=4, max_ops=40, copies=(1,))
    assert [(g.name, g.num_ops) for g in found] == [("random 0#4x1", 32)]


def test_synthetic_corpora_are_disjoint():
    train = corpora.synthetic_graphs("train", 4)
    valid = corpora.validation_graphs("synthetic", 100, max_graphs=4)
    test = corpora.test_settings("synthetic", microbatches=(1, 2), max_ops=150, max_graphs=4)
    names = [{g.name for g in graphs} for graphs in (train, valid, test["as traced"])]
    assert len(set.union(*names)) == sum(map(len, names))
    assert all(g.num_ops <= 150 for g in test["as traced"])
    assert set(test) == {"as traced", "2 microbatches"}


def test_real_corpora_are_of_different_families():
    train = corpora.training_graphs("model_zoo", 1, 60)
    valid = corpora.validation_graphs("model_zoo", 60, max_graphs=5)
    test = corpora.test_settings("model_zoo", microbatches=(1, 4), max_ops=80, max_graphs=900)
    parts = [train, valid, test["as traced"]]
    families = [{g.family for g in part if g.family != "regal_synthetic"} for part in parts]
    assert all(families)
    assert len(set.union(*families)) == sum(map(len, families))
    assert max(g.num_ops for g in test["4 microbatches"]) <= 80


def test_training_copies_differ_from_test_copies():
    graph = random_graph(0).replace(size=np.full(18, 10_000))
    trained = {tuple(g.size) for g in variants([graph], copies=range(1, 100))}
    assert tuple(variants([graph], copies=(corpora._UNSEEN_COPY,))[0].size) not in trained


def test_a_folder_without_test_families_is_an_error(tmp_path):
    files.save_graph(chain(4).replace(family="bert"), tmp_path / "graph.json")
    with pytest.raises(RegalError, match="no graph of a family of the test split"):
        corpora.test_settings(str(tmp_path), microbatches=(1,), max_ops=100, max_graphs=10)


def test_xla_graphs_are_unseen_and_small(tmp_path):
    names = [f"family {number}" for number in range(100)]
    seen = next(name for name in names if splits.family_bucket(name) < 50)
    unseen = next(name for name in names if splits.family_bucket(name) >= 62)
    graphs = [
        chain(length).replace(name=f"{source} {family} {length}", family=family, source=source)
        for family in (seen, unseen)
        for source in ("xla/jax", "flax")
        for length in (3, 4, 9)
    ]
    files.save_graphs(graphs, tmp_path / "graphs.jsonl")
    found = corpora.xla_graphs(str(tmp_path), max_ops=5, max_graphs=9)
    assert {g.name for g in found} == {f"xla/jax {unseen} 3", f"xla/jax {unseen} 4"}
    assert corpora.xla_graphs(str(tmp_path), max_ops=5, max_graphs=1) == found[:1]
    assert corpora.xla_graphs("synthetic", max_ops=5, max_graphs=9) == []

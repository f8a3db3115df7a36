"""Splits by family, and variants of graphs."""

import numpy as np
import pytest

from regal_jax.datasets import corpora, model_zoo
from regal_jax.errors import RegalError
from regal_jax.graphs import files
from tests.policies.cases import chain, random_graph

FAMILIES = [f"family {index}" for index in range(60)]


@pytest.fixture
def zoo(tmp_path):
    """Two files; two graphs a family."""
    for part in range(2):
        graphs = [
            chain(3 + part).replace(family=family, name=f"{family}/{part}") for family in FAMILIES
        ]
        files.save_graphs(graphs, tmp_path / f"part{part}.jsonl{'.gz' * part}")
    return tmp_path


def test_splits_are_whole_families_disjoint_and_complete(zoo):
    splits = {split: model_zoo.load_model_zoo(zoo, split) for split in model_zoo.SPLITS}
    families = {split: {graph.family for graph in graphs} for split, graphs in splits.items()}
    assert sum(map(len, families.values())) == len(FAMILIES)
    assert set.union(*families.values()) == set(FAMILIES)
    assert all(families.values())
    for split, graphs in splits.items():
        assert len(graphs) == 2 * len(families[split])


def test_buckets_are_a_function_of_the_name_alone():
    assert [model_zoo.family_bucket(name) for name in ("resnet", "bert", "")] == [92, 0, 4]
    shares = np.bincount([model_zoo.family_bucket(str(i)) for i in range(20_000)], minlength=100)
    assert len(shares) == 100
    assert shares.min() > 130  # 200 expected


def test_the_shares_cover_every_bucket():
    ranges = sorted(model_zoo.SPLITS.values())
    assert [low for low, _ in ranges] == [0, *(high for _, high in ranges[:-1])]
    assert ranges[-1][1] == 100


def test_an_empty_folder_is_an_error(tmp_path):
    with pytest.raises(RegalError, match=r"no \.jsonl"):
        model_zoo.load_model_zoo(tmp_path, "train")


def variants(graphs, **changes):
    options = {"copies": 3, "num_microbatches": 1, "max_ops": 100, "seed": 5} | changes
    return model_zoo.variants(graphs, **options)


def test_variants_scale_sizes_and_nothing_else():
    graph = random_graph(0).replace(size=np.full(18, 10_000))
    found = variants([graph])
    assert [g.name for g in found] == ["random 0#1x0", "random 0#1x1", "random 0#1x2"]
    for variant in found:
        assert variant.size.min() >= 5_000
        assert variant.size.max() <= 15_000
        assert variant.replace(size=graph.size, name=graph.name) == graph
    assert len({tuple(g.size.tolist()) for g in found}) == 3


def test_variants_are_deterministic():
    graphs = [random_graph(0), random_graph(1)]
    assert variants(graphs) == variants(graphs)
    assert variants(graphs) != variants(graphs, seed=6)
    assert variants(graphs[:1]) == variants(graphs)[:3]


def test_variants_split_into_microbatches_and_leave_out_large_graphs():
    graphs = [random_graph(0, 8), random_graph(1, 12), chain(1)]
    found = variants(graphs, num_microbatches=4, max_ops=40, copies=1)
    assert [(g.name, g.num_ops) for g in found] == [("random 0#4x0", 32)]


def test_corpora_without_a_folder_are_synthetic_and_disjoint():
    train = corpora.synthetic_graphs("train", 4)
    valid = corpora.validation_graphs(None, 100, max_graphs=4)
    test = corpora.test_settings(None, microbatches=(1, 2), max_ops=150, max_graphs=4)
    names = [{g.name for g in graphs} for graphs in (train, valid, test["as traced"])]
    assert len(set.union(*names)) == sum(map(len, names))
    assert all(g.num_ops <= 150 for g in test["as traced"])
    assert set(test) == {"as traced", "2 microbatches"}

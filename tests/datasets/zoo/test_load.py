"""Splits, subsets and augmentation of the model zoo, shipped and from a folder."""

import numpy as np
import pytest

import regal_jax as rj
from regal_jax.datasets.zoo import load, splits
from regal_jax.errors import OptionError, RegalError
from regal_jax.graphs import files
from tests.policies.cases import chain, random_graph

FAMILIES = [f"family {index}" for index in range(60)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two files, one in a subfolder; two graphs a family."""
    place = tmp_path_factory.mktemp("zoo")
    (place / "inner").mkdir()
    for part, name in enumerate(("part0.jsonl", "inner/part1.jsonl.gz")):
        graphs = [
            chain(3 + 40 * index + part).replace(
                family=family, name=f"{family}/{part}", source=f"maker-1.0/{load.MODES[part]}"
            )
            for index, family in enumerate(FAMILIES)
        ]
        files.save_graphs(graphs, place / name)
    return place


@pytest.fixture(scope="module")
def shipped():
    return rj.datasets.model_zoo()


@pytest.mark.parametrize("rule", splits.RULES)
def test_splits_are_disjoint_and_complete(folder, rule):
    parts = [
        load.model_zoo(split, rule=rule, folder=folder) for split in ("train", "valid", "test")
    ]
    names = [graph.name for part in parts for graph in part]
    assert len(set(names)) == len(names) == 2 * len(FAMILIES)
    assert all(parts) or rule == "source"


def test_the_default_split_keeps_families_together(folder):
    families = [{g.family for g in load.model_zoo(s, folder=folder)} for s in splits.SPLITS]
    assert sum(map(len, families)) == len(set.union(*families)) == len(FAMILIES)


def test_buckets_are_a_function_of_the_name_alone():
    assert [splits.family_bucket(name) for name in ("resnet", "bert", "")] == [92, 0, 4]
    shares = np.bincount([splits.family_bucket(str(i)) for i in range(20_000)], minlength=100)
    assert len(shares) == 100
    assert shares.min() > 130  # 200 expected


def test_test_families_are_those_from_62_on(folder):
    assert {g.family for g in load.model_zoo("test", folder=folder)} == {
        family for family in FAMILIES if splits.family_bucket(family) >= 62
    }


def test_an_architecture_is_in_one_split_whichever_package_it_is_from(shipped):
    found = {}
    for graph, split in zip(shipped, splits.splits(shipped), strict=True):
        found.setdefault(splits.architecture(graph.family), set()).add(split)
    assert all(len(its) == 1 for its in found.values())
    assert [row["split"] for row in load.card()] == splits.splits(shipped)


def test_what_a_shipped_policy_may_have_seen_is_not_for_testing(shipped):
    """The bucket of a family says test, but its name is that of a family to train on."""
    for graph, split in zip(shipped, splits.splits(shipped), strict=True):
        bucket = splits.family_bucket(graph.family)
        assert split == "train" if bucket < 50 else split != "test" or bucket >= 62
    seen = next(row["family"] for row in load.card() if row["split"] == "train")
    names = [f"mine{index}/{seen.rsplit('/', 1)[-1].upper()}" for index in range(9)]
    assert max(map(splits.family_bucket, names)) >= 62
    assert splits.splits([chain(3).replace(family=name) for name in names]) == 9 * ["train"]


@pytest.mark.parametrize(
    ("family", "name"),
    [("hf/ConvNext-V2", "convnextv2"), ("a/b/c d", "cd"), ("模型", "模型"), ("x/--", "x/--")],
)
def test_names_of_architectures(family, name):
    assert splits.architecture(family) == name


def test_the_papers_rule_takes_of_every_five_by_size_three_one_and_one(folder):
    graphs = load.model_zoo(folder=folder)
    by_size = sorted(zip(graphs, splits.splits(graphs, "paper"), strict=True), key=_size)
    assert [split for _, split in by_size] == 24 * ["train", "train", "train", "valid", "test"]


def _size(pair):
    return pair[0].num_ops, pair[0].name


def test_large_graphs_and_foreign_sources_test_the_other_rules():
    graphs = [
        chain(2000).replace(family="resnet"),
        chain(3).replace(family="bert", source="xla-0.10/inference"),
        chain(4).replace(family="bert", source="timm-1.0/inference"),
    ]
    assert splits.splits(graphs, "size") == ["test", "train", "train"]
    assert splits.splits(graphs, "source") == ["train", "test", "train"]


def test_subsets_by_mode(folder):
    for part, mode in enumerate(load.MODES[:2]):
        names = {graph.name for graph in load.model_zoo(subset=mode, folder=folder)}
        assert names == {f"{family}/{part}" for family in FAMILIES}


def test_unknown_choices_and_empty_folders_are_errors(folder, tmp_path):
    with pytest.raises(OptionError, match="'tset' is none of train"):
        load.model_zoo("tset")
    with pytest.raises(OptionError, match="rule"):
        load.model_zoo("test", rule="rule")
    with pytest.raises(RegalError, match=r"no \.json"):
        load.model_zoo(folder=tmp_path)


def test_copies_scale_sizes_and_nothing_else():
    graph = random_graph(0).replace(size=np.full(18, 10_000))
    original, *copies = load.augmented(graph, range(4))
    assert original is graph
    assert [copy.name for copy in copies] == [f"random 0#{number}" for number in (1, 2, 3)]
    for copy in copies:
        assert copy.size.min() >= 5_000
        assert copy.size.max() <= 15_000
        assert copy.replace(size=graph.size, name=graph.name) == graph
    assert len({tuple(copy.size.tolist()) for copy in copies}) == 3
    assert list(load.augmented(graph, [2])) == [copies[1]]


def test_the_shipped_graphs_are_many_and_all_in_program_order(shipped):
    assert len(shipped) >= 1500
    assert len({graph.family for graph in shipped}) >= 300
    assert min(graph.num_ops for graph in shipped) <= 10
    assert max(graph.num_ops for graph in shipped) >= 10_000
    for graph in shipped:
        assert np.all(graph.edges[:, 0] < graph.edges[:, 2])
        assert graph.flops is not None
        assert len(graph.op_kinds) == graph.num_ops


def test_the_card_describes_the_shipped_graphs(shipped):
    rows = {row["name"]: row for row in rj.datasets.card()}
    assert set(rows) == {graph.name for graph in shipped}
    for graph, split in zip(shipped, splits.splits(shipped), strict=True):
        row = rows[graph.name]
        assert row["fingerprint"] == graph.fingerprint[:16]
        assert int(row["ops"]) == graph.num_ops
        assert row["split"] == split


def test_at_least_three_hundred_shipped_graphs_have_headroom():
    assert len(rj.datasets.model_zoo(subset="headroom")) >= 300


def test_microbatches_of_training_graphs(folder):
    graphs = load.model_zoo(subset="microbatches", folder=folder)
    assert all(graph.name.endswith("@4") for graph in graphs)
    assert len(graphs) == len(FAMILIES)


def test_shipped_training_graphs_split_into_microbatches(shipped):
    training = [g for g in shipped if load.mode_of(g) == "training_adam"][:3]
    for graph in training:
        split = rj.microbatches(graph, 2)
        assert graph.num_ops < split.num_ops < 2 * graph.num_ops
        assert "accumulate" in split.op_kinds


def test_a_device_profile_is_chosen_when_loading():
    slow = rj.datasets.model_zoo("valid", profile=load.A100._replace(flops_per_second=1e9))
    fast = rj.datasets.model_zoo("valid")
    assert slow[0].duration.sum() > fast[0].duration.sum()
    np.testing.assert_array_equal(slow[0].flops, fast[0].flops)

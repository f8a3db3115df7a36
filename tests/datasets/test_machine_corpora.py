"""Settings by name: the graphs they stand for, and that fresh graphs are new."""

import pytest

from regal_jax.datasets import job_shop, machine_corpora
from regal_jax.errors import OptionError

TRAINING, VALIDATION = machine_corpora.TRAINING, machine_corpora.VALIDATION
SETTINGS = [
    "job_shop 3x2",
    "layered 20",
    "erdos_renyi 20",
    "stochastic_block_model 20",
]


def prints(graphs):
    return {graph.fingerprint for graph in graphs}


def test_published_graphs_are_those_of_their_modules():
    found = machine_corpora.published_graphs("job_shop 3x2", "test", 4)
    assert prints(found) == prints(job_shop.uniform_split("test", 3, 2)[:4])
    assert len(machine_corpora.published_graphs("job_shop 3x2", "train", 10_000)) == 100
    assert [g.num_ops for g in machine_corpora.published_graphs("layered 20", "test", 2)] == [
        20,
        20,
    ]


def test_fresh_graphs_take_turns_and_are_the_same_again():
    found = machine_corpora.fresh_graphs(SETTINGS, 8, (TRAINING, 0, 0))
    assert [graph.num_ops for graph in found] == [6, 20, 20, 20] * 2
    assert prints(found) == prints(machine_corpora.fresh_graphs(SETTINGS, 8, (TRAINING, 0, 0)))


def test_epochs_seeds_validation_and_published_splits_share_no_graph():
    groups = [
        prints(machine_corpora.fresh_graphs(SETTINGS, 10, seed))
        for seed in ((TRAINING, 0, 0), (TRAINING, 0, 1), (TRAINING, 1, 0), (VALIDATION,))
    ]
    groups += [
        prints(g for name in SETTINGS for g in machine_corpora.published_graphs(name, split, 2))
        for split in ("train", "test")
    ]
    assert len(set.union(*groups)) == sum(map(len, groups)) == 4 * 10 + 2 * 8


@pytest.mark.parametrize(
    "setting", ["job_shop 3", "two_sets 3", "layered", "ring 20", "layered 2x3", "tpch x"]
)
def test_wrong_names_are_option_errors(setting):
    with pytest.raises(OptionError, match="is not KIND SIZE"):
        machine_corpora.parse(setting)


def test_tpch_needs_a_folder_and_two_sets_have_no_splits():
    with pytest.raises(OptionError, match="--data_dir"):
        machine_corpora.fresh_graphs(["tpch 2"], 1, (VALIDATION,))
    with pytest.raises(OptionError, match="two_sets 4x4: the paper has none"):
        machine_corpora.published_graphs("two_sets 4x4", "test", 1)


def test_jobs_of_two_sets_visit_one_half_first():
    for graph in machine_corpora.fresh_graphs(["two_sets 5x4", "two_sets 5x3"], 2, (TRAINING,)):
        machines = graph.machine_type.reshape(-1, len(graph.capacity))
        first = len(machines[0]) - len(machines[0]) // 2
        assert machines[:, :first].max() < first <= machines[:, first:].min()

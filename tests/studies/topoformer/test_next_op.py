"""Op-by-op orders by launcher: its flags for the shipped policy are those that made it; it resumes;
graphs to train, validate and test on have nothing in common."""

import dataclasses
from pathlib import Path

import pytest
from absl.flags import FlagValues

from regal_jax.methods.pretrained import shipped_policy
from regal_jax.policies.choosing import NextOpConfig
from regal_jax.studies import flags
from regal_jax.studies.topoformer import graphs, next_op
from regal_jax.studies.topoformer.next_op import Settings
from regal_jax.training.checkpoints import load_policy
from regal_jax.training.settings import graphs_fingerprint
from tests.experiments.test_launchers import launch
from tests.experiments.test_launchers_ablations import SMOKE

FLAGS = Path(__file__).parents[3] / "experiments" / "flags" / "small" / "next_op.flags"


@pytest.fixture(scope="module")
def settings():
    values, defaults = FlagValues(), Settings(output_dir="results")
    flags.define(defaults, values)
    values(["", f"--flagfile={FLAGS}"])
    return flags.read(defaults, values)


def test_the_flags_are_those_of_the_shipped_policy(settings):
    _, config, about = load_policy(shipped_policy("peak_memory", "next_op"), NextOpConfig)
    assert config == settings.next_op
    assert about["training"] == dataclasses.asdict(settings.training)
    for name in ("train_ops", "train_graphs", "copies", "dataset", "label_width", "epoch_graphs"):
        assert about[name] == getattr(settings, name)
    assert about["train_nodes"] == list(settings.train_nodes)
    real = graphs.real_graphs(settings.dataset)["valid"]
    validation = next_op.validation_graphs(settings, real)
    assert about["validation"] == graphs_fingerprint(validation)


def test_an_epoch_is_half_layered_and_half_real(settings):
    pool = graphs.real_graphs(settings.dataset)["train"][:100]
    epochs = next_op.training_graphs(settings, pool)
    names = [[graph.name for graph in epochs(epoch)] for epoch in (0, 0, 1)]
    assert names[0] == names[1] != names[2]
    assert len(names[0]) == settings.epoch_graphs
    own = {graph.name for graph in pool}
    assert sum(name in own for name in names[0]) == settings.epoch_graphs // 2
    layered = [{name for name in some if name not in own} for some in names[1:]]
    assert not layered[0] & layered[1]
    assert {int(name.split()[1]) for name in layered[0]} == set(settings.train_nodes)


def test_a_run_trains_compares_and_resumes(tmp_path):
    flagfile = f"--flagfile={SMOKE}/next_op.flags"
    first = launch("next_op.py", flagfile, f"--output_dir={tmp_path}")
    rows = (tmp_path / "results.csv").read_text()
    assert "30 nodes: gap of peak memory from approximate_dp 100 (2 graphs)" in first
    assert "20-40 nodes: gap of peak memory from approximate_dp 100 (2 graphs)" in first
    for label in ("next_op greedy", "next_op sample 4", "lookahead greedy", "lookahead sample 4"):
        assert first.count(label) == 2
    assert launch("next_op.py", flagfile, f"--output_dir={tmp_path}") == first
    assert (tmp_path / "results.csv").read_text() == rows

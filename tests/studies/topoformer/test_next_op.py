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

FLAGS = Path(__file__).parents[3] / "experiments" / "flags" / "small"


@pytest.fixture(scope="module")
def settings():
    return read("next_op")


def read(name):
    values, defaults = FlagValues(), Settings(output_dir="results")
    flags.define(defaults, values)
    values(["", f"--flagfile={FLAGS / name}.flags"])
    return flags.read(defaults, values)


@pytest.mark.parametrize("system", ["next_op", "next_op_greedy"])
def test_the_flags_are_those_of_the_shipped_policy(system):
    settings = read(system)
    _, config, about = load_policy(shipped_policy("peak_memory", system), NextOpConfig)
    assert config == NextOpConfig()
    assert about["training"] == dataclasses.asdict(settings.training)
    for name in ("train_ops", "train_graphs", "copies", "dataset", "epoch_graphs"):
        assert about[name] == getattr(settings, name)
    for name in ("train_nodes", "microbatches"):
        assert about[name] == list(getattr(settings, name))
    real = graphs.real_graphs(settings.dataset)["valid"]
    validation = next_op.validation_graphs(settings, real)
    assert about["validation"] == graphs_fingerprint(validation)


def test_an_epoch_is_half_layered_and_half_real(settings):
    settings = dataclasses.replace(settings, microbatches=(1,))
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


def test_a_third_of_an_epoch_is_in_microbatches(settings):
    settings = dataclasses.replace(settings, microbatches=(1, 4), epoch_graphs=90)
    train = graphs.real_graphs(settings.dataset)["train"][:200]
    pool = graphs.real_pool(train, settings)
    in_four = {graph.name for graph in pool if "#4x" in graph.name}
    assert {"#1x" in graph.name for graph in pool if graph.name not in in_four} == {True}
    small = {graph.name for graph in train if 4 * graph.num_ops <= settings.train_ops}
    assert {name.partition("#")[0] for name in in_four} <= small
    names = [graph.name for graph in next_op.training_graphs(settings, pool)(0)]
    assert sum("#" not in name for name in names) == 30
    assert 0 < sum(name in in_four for name in names) < 60


def test_steps_over_microbatches_are_tests_of_their_own(settings):
    found = graphs.real_graphs(settings.dataset)["test"][:100]
    settings = dataclasses.replace(settings, microbatches=(1, 4), test_graphs=5)
    tests = graphs.real_tests(found, settings)
    small = {graph.name for graph in found if 4 * graph.num_ops <= settings.train_ops}
    assert len(tests["4 microbatches"]) == 5
    assert {graph.name for graph in tests["4 microbatches"]} <= small
    whole = graphs.real_tests(found, dataclasses.replace(settings, microbatches=(1,)))
    assert whole.keys() == tests.keys() - {"4 microbatches"}


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

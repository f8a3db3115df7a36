"""Training several policies: what is trained, kept and resumed; the sweep of figure 8."""

import dataclasses

import pytest

from regal_jax.errors import OptionError
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.reporting import results
from regal_jax.studies.corpus import Corpus
from regal_jax.studies.regal import propagation, training_sweep
from regal_jax.studies.regal.experiment import Training
from regal_jax.training.checkpoints import load_policy, save_policy
from regal_jax.training.regal import TrainingConfig
from tests.policies.cases import random_graph

REGAL = RegalConfig(size=4, feature_evaluations=100)
CONFIG = TrainingConfig(evaluations=200, batch_size=1, steps=1)


def sweep(rounds, weights, seeds, config=CONFIG):
    sweeps = {"sweep_rounds": rounds, "sweep_baseline_weights": weights, "sweep_seeds": seeds}
    return propagation.runs(propagation.Settings(regal=REGAL, training=config, **sweeps))


def train_all(folder, runs, corpus=lambda: Corpus("", [random_graph(0, 9)], [random_graph(1, 9)])):
    return training_sweep.train_all(
        runs, corpus, objective="peak_memory", directory=folder, validate_every=1
    )


def test_a_sweep_is_all_combinations_seed_by_seed():
    runs = sweep([0, 4], [1e-3, 1e-4], 3)
    assert len({run.name for run in runs}) == 12
    assert runs[1].name == "rounds_0_weight_0.0001_seed_0"
    assert (runs[1].regal.rounds, runs[1].config.baseline_weight) == (0, 1e-4)
    assert [run.config.seed for run in runs] == [0] * 4 + [1] * 4 + [2] * 4
    values = {run.name: float(index) for index, run in enumerate(runs)}
    assert training_sweep.values_by_rounds(values, runs) == {
        "0": [0.0, 1.0, 4.0, 5.0, 8.0, 9.0],
        "4": [2.0, 3.0, 6.0, 7.0, 10.0, 11.0],
    }


def test_weights_of_no_baseline_are_an_error():
    many = TrainingConfig(samples=2)
    assert len(sweep([2], [1e-3], 2, many)) == 2
    with pytest.raises(OptionError, match="no effect with --samples"):
        sweep([2], [1e-3, 1e-4], 2, many)


@pytest.fixture
def fake_training(monkeypatch):
    """Training that makes a policy file at once, and fails where there is one."""

    def train(graphs, validation, *, regal, directory, **options):
        directory.mkdir()
        about = {"validation_improvement": 1.5 + regal.rounds}
        save_policy(directory / "best.policy", {}, regal, about=about)
        return directory / "best.policy"

    monkeypatch.setattr(training_sweep, "train_regal", train)


def test_runs_are_trained_once_each(tmp_path, fake_training, monkeypatch):
    runs = sweep([0, 2], [1e-3], 1)
    found = train_all(tmp_path, runs[:1])
    found = train_all(tmp_path, runs) | {"first": found[runs[0].name]}
    assert found[runs[0].name] == found.pop("first")
    for run in runs:
        _, config, about = load_policy(tmp_path / run.name / "best.policy", RegalConfig)
        assert config == run.regal
        assert found[run.name] == about["validation_improvement"]
    rows = results.read_results(tmp_path / "training.csv")
    assert [row["method"] for row in rows] == [run.name for run in runs]
    monkeypatch.setattr(training_sweep, "train_regal", pytest.fail)
    assert train_all(tmp_path, runs) == found


def test_more_steps_are_trained_on(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        training_sweep, "train_regal", lambda *_, config, **__: asked.append(config)
    )
    monkeypatch.setattr(
        training_sweep.checkpoints,
        "load_policy",
        lambda *_: ({}, REGAL, {training_sweep.METRIC: 1}),
    )
    for config in (CONFIG, dataclasses.replace(CONFIG, steps=9), CONFIG):
        train_all(tmp_path, sweep([2], [1e-4], 1, config))
    assert [config.steps for config in asked] == [1, 9]


@pytest.mark.parametrize("change", ["graphs", "objective", "model", "learning rate"])
def test_whatever_changes_a_training_trains_again(tmp_path, monkeypatch, change):
    asked = []
    monkeypatch.setattr(training_sweep, "train_regal", lambda *args, **kw: asked.append(kw))
    monkeypatch.setattr(
        training_sweep.checkpoints,
        "load_policy",
        lambda *_: ({}, REGAL, {training_sweep.METRIC: len(asked)}),
    )

    def train(objective="peak_memory", graph=0, regal=REGAL, config=CONFIG):
        found = training_sweep.train_all(
            [training_sweep.TrainingRun("run", regal, config)],
            lambda: Corpus("", [random_graph(graph, 9)], [random_graph(1, 9)]),
            objective=objective,
            directory=tmp_path,
            validate_every=1,
        )
        return found["run"]

    changed = {
        "graphs": {"graph": 2},
        "objective": {"objective": "makespan"},
        "model": {"regal": dataclasses.replace(REGAL, rounds=1)},
        "learning rate": {"config": dataclasses.replace(CONFIG, learning_rate=0.5)},
    }[change]
    assert [train(), train(**changed), train(), train(**changed)] == [1, 2, 1, 2]
    assert len(asked) == 2


def test_the_corpus_is_within_its_sizes():
    sizes = {"copies": 1, "train_ops": 60, "train_graphs": 9, "validation_graphs": 8}
    corpus = training_sweep.load_corpus(Training(dataset="synthetic", **sizes))
    assert 0 < max(graph.num_ops for graph in corpus.training) <= 60
    assert 0 < max(graph.num_ops for graph in corpus.validation) <= 120

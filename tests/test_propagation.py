"""The sweep over rounds of message passing: what is trained, kept and resumed."""

import pytest

from regal_jax import propagation
from regal_jax.errors import OptionError
from regal_jax.policies.regal import RegalConfig
from regal_jax.propagation import TrainingRun
from regal_jax.training.checkpoints import load_policy
from regal_jax.training.regal import TrainingConfig
from tests.policies.cases import random_graph

REGAL = RegalConfig(size=4, feature_evaluations=100)
CONFIG = TrainingConfig(evaluations=200, batch_size=1, steps=1)
RUNS = propagation.sweep([0, 2], [1e-3], 2)


def train_all(folder, runs=RUNS, config=CONFIG, graphs=None):
    return propagation.train_all(
        runs,
        graphs or (lambda: ([random_graph(0, 9)], [random_graph(1, 9)])),
        objective="peak_memory",
        regal=REGAL,
        config=config,
        directory=folder,
        validate_every=1,
    )


def test_a_sweep_is_all_combinations_seed_by_seed():
    runs = propagation.sweep([0, 4], [1e-3, 1e-4], 3)
    assert len(runs) == len(set(runs)) == len({run.folder for run in runs}) == 12
    assert runs[:2] == [TrainingRun(0, 1e-3, 0), TrainingRun(0, 1e-4, 0)]
    assert [run.seed for run in runs] == [0] * 4 + [1] * 4 + [2] * 4


def test_runs_are_trained_once_each(tmp_path):
    rows = train_all(tmp_path)
    for run in RUNS:
        _, config, about = load_policy(tmp_path / run.folder / "best.policy")
        assert config.rounds == run.rounds
        assert propagation.values_by_rounds(rows, [run]) == {
            str(run.rounds): [about["validation_improvement"]]
        }
    table = propagation.values_by_rounds(rows, RUNS)
    assert {rounds: len(values) for rounds, values in table.items()} == {"0": 2, "2": 2}
    again = train_all(tmp_path, graphs=pytest.fail)
    assert propagation.values_by_rounds(again, RUNS) == table


def test_weights_of_no_baseline_are_an_error(tmp_path):
    runs = propagation.sweep([2], [1e-3, 1e-4], 1)
    with pytest.raises(OptionError, match="no effect with --samples"):
        train_all(tmp_path, runs, TrainingConfig(samples=2))

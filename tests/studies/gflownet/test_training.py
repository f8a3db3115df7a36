"""Policies of robust scheduling: what is given, what is trained, and with which flags."""

import pytest
from absl import flags

from regal_jax.errors import OptionError
from regal_jax.studies import flags as config_flags
from regal_jax.studies.corpus import Corpus
from regal_jax.studies.gflownet import training
from regal_jax.studies.gflownet.settings import Comparison
from regal_jax.training.ppo import PPOTraining

NO_GRAPHS = Corpus("nothing", [], [])


def test_flags_are_those_of_both_trainings_with_what_they_share_once():
    values, defaults = flags.FlagValues(), Comparison()
    config_flags.define(defaults, values)
    values(["test", "--steps=7", "--ppo_steps=3", "--num_devices=2", "--seed=4", "--ppo_passes=1"])
    settings = config_flags.read(defaults, values)
    plan, ppo, policy = settings.training, settings.ppo, settings.flow
    assert (plan.steps, plan.num_devices, plan.seed) == (7, 2, 4)
    assert (ppo.steps, ppo.num_devices, ppo.seed, ppo.passes) == (3, 2, 4, 1)
    assert policy.num_devices == 2
    assert ppo.temperature == PPOTraining().temperature
    assert "ppo_num_devices" not in values


def test_given_policies_are_for_every_seed_and_train_nothing(tmp_path):
    settings = Comparison(
        methods=("gflownet", "ppo 9", "brkga"),
        policy="a.policy",
        ppo_policy="shipped",
        targets=(),
        seeds=2,
    )
    found = training.policies(NO_GRAPHS, tmp_path, settings)
    assert {key: file and file.name for key, file in found.items()} == {
        ("gflownet", 0): "a.policy",
        ("gflownet", 1): "a.policy",
        ("ppo", 0): None,
        ("ppo", 1): None,
    }
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("retrain", "trainings"), [(True, [0, 1, 2]), (False, [0])])
def test_each_seed_has_its_own_training_or_all_share_one(retrain, trainings, tmp_path, monkeypatch):
    settings = Comparison(methods=("gflownet",), seeds=3, retrain=retrain, targets=())
    seen = []

    def train(system, corpus, folder, policy, plan, seed):
        seen.append(seed)
        return folder / f"{system}_{seed}"

    monkeypatch.setattr(training, "train", train)
    found = training.policies(NO_GRAPHS, tmp_path, settings)
    assert seen == trainings
    names = [found["gflownet", seed].name for seed in range(3)]
    assert names == [f"gflownet_{seed if retrain else 0}" for seed in range(3)]


def test_regimes_are_a_temperature_or_a_range():
    fixed, wide = training.regime("0.03"), training.regime("0.01:1")
    assert tuple(fixed.values()) == (0.03, 0.03, 0.03)
    assert wide == {"min_temperature": 0.01, "max_temperature": 1.0, "test_temperature": 0.01}
    for wrong in ("", "warm", "0.1:", "0.1-1"):
        with pytest.raises(OptionError, match=f"regimes: '{wrong}' is neither"):
            training.regime(wrong)

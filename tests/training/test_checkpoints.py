"""Policy files: what they keep, and damage."""

import chex
import jax
import numpy as np
import pytest

from regal_jax.errors import RegalError
from regal_jax.policies.one_shot.policy import OneShotConfig
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.training import checkpoints
from tests.policies.cases import chain, inputs_of


def new_policy():
    config = RegalConfig(size=4, rounds=2, levels=3, elite_bias=True, feature_set="workshop")
    return config.policy.init(jax.random.key(0), inputs_of(chain(2))), config


def test_policy_files_keep_parameters_and_configuration(tmp_path):
    params, config = new_policy()
    path = tmp_path / "p.policy"
    checkpoints.save_policy(path, params, config, about={"objective": "makespan", "steps": 7})
    again, same, about = checkpoints.load_policy(path, RegalConfig)
    assert same == config
    assert about == {"objective": "makespan", "steps": 7}
    chex.assert_trees_all_equal(again, jax.device_get(params))
    assert [file.name for file in tmp_path.iterdir()] == ["p.policy"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"not a policy\nat all",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: data.replace(b'"levels"', b'"lovels"'),
        lambda data: data.replace(b'{"config"', b'["config"'),
        lambda data: bytes(len(data)),
    ],
)
def test_damaged_policy_files_are_one_line(tmp_path, damage):
    params, config = new_policy()
    path = tmp_path / "p.policy"
    checkpoints.save_policy(path, params, config, about={})
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RegalError, match=r"p\.policy: not a policy file") as caught:
        checkpoints.load_policy(path, RegalConfig)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_parameters_that_are_not_finite_are_refused(number, tmp_path):
    params, config = new_policy()
    first, *others = jax.tree.leaves(params)
    first = np.array(first)
    first.flat[-1] = number
    params = jax.tree.unflatten(jax.tree.structure(params), [first, *others])
    checkpoints.save_policy(tmp_path / "p.policy", params, config, about={})
    with pytest.raises(RegalError, match=r"p\.policy: has parameters that aren't finite"):
        checkpoints.load_policy(tmp_path / "p.policy", RegalConfig)


def test_a_missing_policy_file(tmp_path):
    with pytest.raises(RegalError, match="no such file"):
        checkpoints.load_policy(tmp_path / "none.policy", RegalConfig)


def test_a_file_of_another_system_is_refused_by_name(tmp_path):
    params, config = new_policy()
    path = tmp_path / "p.policy"
    checkpoints.save_policy(path, params, config, about={})
    expected = "holds a policy of regal, expected one of one_shot"
    with pytest.raises(RegalError, match=expected):
        checkpoints.load_policy(path, OneShotConfig)


def test_a_policy_that_no_package_registers(tmp_path):
    params, config = new_policy()
    path = tmp_path / "p.policy"
    checkpoints.save_policy(path, params, config, about={})
    path.write_bytes(path.read_bytes().replace(b'"policy": "regal"', b'"policy": "royal"'))
    with pytest.raises(RegalError, match="'royal', which no installed package registers"):
        checkpoints.load_policy(path, RegalConfig)

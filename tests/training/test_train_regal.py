"""The training loop: it resumes to the same result, and keeps the best policy."""

import dataclasses

import chex
import jax
import numpy as np
import pytest

from regal_jax.errors import OptionError
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.training import checkpoints
from regal_jax.training import regal as training
from tests.training.cases import CONFIG, REGAL, buckets, checkpoint, rows, stopped

VALIDATE_EVERY = 2


def run(directory, *, stop_after=None, config=CONFIG):
    return training.train(
        buckets(),
        buckets(),
        regal=REGAL,
        config=config,
        directory=directory,
        validate_every=VALIDATE_EVERY,
        about={"objective": "makespan"},
        on_step=stopped(stop_after),
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """(directory, result) of a run that nothing interrupted."""
    directory = tmp_path_factory.mktemp("whole")
    return directory, run(directory)


@pytest.fixture(scope="module")
def resumed(tmp_path_factory):
    """The same of a run stopped one step after a checkpoint."""
    directory = tmp_path_factory.mktemp("resumed")
    with pytest.raises(KeyboardInterrupt):
        run(directory, stop_after=3)
    assert len(rows(directory)) == 3
    return directory, run(directory)


def test_a_resumed_run_ends_bit_for_bit_where_it_would_have(whole, resumed):
    (params, improvement), (again, same) = whole[1], resumed[1]
    chex.assert_trees_all_equal(params, again)
    assert improvement == same
    one, other = (checkpoint(directory, CONFIG.steps) for directory, _ in (whole, resumed))
    chex.assert_trees_all_equal(one, other)


def test_a_resumed_run_logs_the_same_rows(whole, resumed):
    assert rows(whole[0]) == rows(resumed[0])


def test_the_log_has_a_row_a_step_and_validations(whole):
    found = rows(whole[0])
    assert [int(row["step"]) for row in found] == [1, 2, 3, 4, 5]
    validated = [row["step"] for row in found if row["validation_improvement"]]
    assert validated == ["2", "4", "5"]


def test_a_finished_run_is_not_run_again(whole):
    before = rows(whole[0])
    params, improvement = run(whole[0], stop_after=1)
    chex.assert_trees_all_equal(params, whole[1][0])
    assert improvement == whole[1][1]
    assert rows(whole[0]) == before


def test_best_policy_is_the_one_of_best_validation(whole):
    directory, (params, improvement) = whole
    saved, config, about = checkpoints.load_policy(directory / "best.policy", RegalConfig)
    assert config == REGAL
    chex.assert_trees_all_equal(saved, jax.device_get(params))
    found = rows(directory)
    validations = {
        int(row["step"]): float(row["validation_improvement"])
        for row in found
        if row["validation_improvement"]
    }
    assert improvement == max(validations.values())
    assert about == {
        "objective": "makespan",
        "steps": max(validations, key=lambda step: (validations[step], -step)),
        "validation_improvement": improvement,
    }
    again = training.validate(params, buckets(), regal=REGAL, config=CONFIG)
    np.testing.assert_allclose(again, improvement, rtol=1e-5)


def test_batches_are_a_function_of_seed_and_step():
    batches = [
        training._batch(buckets(), dataclasses.replace(CONFIG, seed=seed), step).examples.reference
        for seed, step in [(0, 3), (0, 3), (1, 3), (0, 4), (0, 5), (0, 6)]
    ]
    assert batches[0].tolist() == batches[1].tolist()
    assert len({tuple(batch.tolist()) for batch in batches}) > 1
    assert batches[0].shape == (CONFIG.batch_size,)


def test_a_batch_that_the_devices_cannot_share_is_an_error(tmp_path, monkeypatch):
    device = jax.devices()[0]
    monkeypatch.setattr(jax, "devices", lambda: [device] * 3)
    with pytest.raises(OptionError, match=r"batch_size \(2\) must be a multiple of the 3 devices"):
        run(tmp_path)

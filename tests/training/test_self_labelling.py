"""Self-labelling: what is imitated, that it gets better by it, and resuming."""

import dataclasses

import chex
import jax
import numpy as np
import pytest

from regal_jax import registry
from regal_jax.datasets.job_shop import uniform_job_shops
from regal_jax.environments.choosing.choices import Choices
from regal_jax.environments.choosing.kernel import MOST
from regal_jax.environments.sequencing.choices import SEQUENCING
from regal_jax.environments.sequencing.kernel import FEATURES
from regal_jax.errors import OptionError
from regal_jax.policies.choosing import SequencingConfig
from regal_jax.training import checkpoints, self_labelling
from regal_jax.training.choosing import example, train_choosing
from regal_jax.training.self_labelling import SelfLabelling
from tests.training.cases import checkpoint, rows, stopped, whole_as_resumed

POLICY = SequencingConfig(size=8)
CONFIG = SelfLabelling(
    epochs=3, batch_size=2, samples=8, passes=2, choices=32, validation_samples=4, seed=1
)
VALIDATION = uniform_job_shops(5, 4, count=2, seed=1)
STEPS = 6
"""Of 3 epochs, of two graphs and then one."""


def fresh(epoch):
    return uniform_job_shops(5, 4, count=3, seed=10 + epoch)


def run(directory, *, stop_after=None, config=CONFIG, validation=VALIDATION):
    return train_choosing(
        SEQUENCING,
        fresh,
        validation,
        learner=self_labelling.learner,
        epoch_graphs=3,
        policy=POLICY,
        config=config,
        directory=directory,
        about={"data": "job shops"},
        on_step=stopped(stop_after),
    )


def test_a_resumed_run_ends_bit_for_bit_where_it_would_have(tmp_path):
    whole = whole_as_resumed(run, tmp_path, stop_after=3, step=STEPS)
    _, config, about = checkpoints.load_policy(whole / "best.policy", SequencingConfig)
    assert config == POLICY
    assert about["data"] == "job shops"
    assert 1.0 <= about["validation_cost"] <= about["validation_greedy"]


def test_a_run_goes_on_for_more_epochs(tmp_path):
    run(tmp_path / "whole")
    run(tmp_path / "longer", config=dataclasses.replace(CONFIG, epochs=1))
    run(tmp_path / "longer")
    whole, longer = (checkpoint(tmp_path / name, STEPS) for name in ("whole", "longer"))
    chex.assert_trees_all_equal(whole, longer)


def test_the_shortest_schedule_is_the_label():
    one = example(SEQUENCING, VALIDATION[0])
    network = SEQUENCING.linear({})
    label, costs = self_labelling.label(one, network, CONFIG, np.random.default_rng(3))
    seeds = np.random.default_rng(3).integers(2**63, size=CONFIG.samples).astype(np.uint64)
    orders, makespans = SEQUENCING.drawn(one.columns, network, seeds, 1.0)
    np.testing.assert_allclose(costs, makespans / one.bound)
    expected = SEQUENCING.choices(one.columns, orders[np.argmin(makespans)])
    for found, right in zip(label, expected, strict=True):
        np.testing.assert_array_equal(found, right)


def test_rows_are_as_wide_as_the_largest_conflict_needs():
    def some(counts):
        n = len(counts)
        return Choices(np.zeros((n, MOST, FEATURES)), np.array(counts), np.zeros(n, int))

    for counts, width in (([2, 3], 4), ([2], 2), ([5, 8], 8), ([9], 16), ([], 2)):
        found = self_labelling.joined([some(counts), some([])])
        assert found.rows.shape == (len(counts), width, FEATURES)


def test_training_imitates_shorter_schedules(tmp_path):
    """After a hundred steps the mean of samples is well below that of a new policy."""
    config = dataclasses.replace(
        CONFIG, epochs=50, samples=32, passes=8, choices=256, learning_rate=5e-3
    )
    run(tmp_path, config=config)
    found = rows(tmp_path)
    first, last = (
        np.mean([float(row["cost"]) for row in part]) for part in (found[:5], found[-20:])
    )
    assert last < first - 0.05
    assert float(found[-1]["loss"]) < float(found[0]["loss"])


def test_probabilities_of_the_imitated_are_the_loss():
    made = registry.make_policy(POLICY)
    params = made.init(jax.random.key(2))
    one = example(SEQUENCING, VALIDATION[1])
    label, _ = self_labelling.label(one, SEQUENCING.linear({}), CONFIG, np.random.default_rng(0))
    loss, agreement = self_labelling._loss(params, made.log_prob, *label)
    each = [
        made.log_prob(params, row[:count], count)
        for row, count in zip(label.rows, label.counts.tolist(), strict=True)
    ]
    chosen = [log_prob[at] for log_prob, at in zip(each, label.chosen, strict=True)]
    assert float(loss) == pytest.approx(-float(np.mean(chosen)), rel=1e-5)
    right = [int(np.argmax(p)) == at for p, at in zip(each, label.chosen, strict=True)]
    assert float(agreement) == pytest.approx(np.mean(right))


def test_no_validation_graphs_are_refused(tmp_path):
    with pytest.raises(OptionError, match="no validation graphs"):
        run(tmp_path, validation=[])

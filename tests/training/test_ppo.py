"""PPO against its formulas in plain numpy, and on one graph."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from regal_jax.datasets.task_graphs import task_graph
from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError
from regal_jax.policies.gflownet.policy import flow_inputs
from regal_jax.policies.gflownet.rollout import Likelihood
from regal_jax.training import ppo, trainer
from regal_jax.training.flow import FlowBatch
from regal_jax.training.ppo import PPOTraining, ppo_loss
from tests.policies.gflownet.cases import WITHOUT_EDGES as POLICY
from tests.policies.gflownet.cases import new_policy

CONFIG = PPOTraining(num_devices=2, trajectories=20, steps=40, learning_rate=1e-2)
CHAINS = task_graph([(0, 1), (2, 3), (4, 5)], [5.0, 1.0, 1.0, 5.0, 2.0, 2.0])
INPUTS = flow_inputs(CHAINS, Platform(2), POLICY)


def numbers(seed, low=-2.0, high=0.0):
    """float32[4, 3]."""
    return np.random.default_rng(seed).uniform(low, high, (4, 3)).astype(np.float32)


REAL = np.array([[True] * 3] * 3 + [[True, True, False]])
OLD = Likelihood(numbers(0), numbers(1), numbers(2), numbers(3, 0, 1))
NEW = Likelihood(numbers(4), numbers(5), numbers(6), numbers(7, 0, 1))
RETURNS, ADVANTAGE = numbers(8)[:, :1], numbers(9, -1, 1)


def test_the_loss_is_that_of_plain_numpy():
    steps = [(n, t) for n in range(4) for t in range(3) if REAL[n, t]]
    gains, errors = [], []
    for n, t in steps:
        ratio = np.exp(NEW.forward[n, t] - OLD.forward[n, t])
        advantage = ADVANTAGE[n, t]
        # Spinning Up's form: what the objective is clipped at depends on the advantage's sign
        limit = (1 + 0.2) * advantage if advantage >= 0 else (1 - 0.2) * advantage
        gains.append(min(ratio * advantage, limit))
        errors.append((NEW.flow[n, t] - RETURNS[n, 0]) ** 2)
    entropy = np.mean([NEW.entropy[step] for step in steps])
    expected = -np.mean(gains) + 0.5 * np.mean(errors) - 0.1 * entropy
    found = ppo_loss(NEW, OLD, ADVANTAGE, RETURNS, REAL, 0.1, PPOTraining())
    assert float(found) == pytest.approx(expected, abs=1e-6)


def test_beyond_the_clip_there_is_no_gradient():
    """Likelihoods that have moved the right way far enough are left alone; the wrong way not."""
    ones = np.ones((1, 2), bool)
    advantage = jnp.array([[1.0, -1.0]])

    def slope(move):
        old = Likelihood(*(jnp.zeros((1, 2)) for _ in range(4)))

        def loss(forward):
            new = old._replace(forward=forward)
            return ppo_loss(new, old, advantage, jnp.zeros((1, 1)), ones, 0.0, CONFIG)

        return np.asarray(jax.grad(loss)(jnp.full((1, 2), move)))[0]

    np.testing.assert_allclose(slope(0.0), [-0.5, 0.5])
    up, down = np.log(1.3), np.log(0.7)
    np.testing.assert_allclose(slope(up), [0, 0.65], rtol=1e-5)
    np.testing.assert_allclose(slope(down), [-0.35, 0], rtol=1e-5)


def test_padding_does_not_count():
    def loss(fill):
        new, old = (
            Likelihood(*(np.where(REAL, part, fill) for part in parts)) for parts in (NEW, OLD)
        )
        advantage = ppo.standardised(jnp.where(REAL, ADVANTAGE, fill), REAL)
        return float(ppo_loss(new, old, advantage, RETURNS, REAL, 0.1, CONFIG))

    assert loss(0.0) == pytest.approx(loss(7.0), rel=1e-5)


def test_advantages_are_standardised():
    found = np.asarray(ppo.standardised(ADVANTAGE, REAL))[REAL]
    expected = ADVANTAGE[REAL] - ADVANTAGE[REAL].mean()
    np.testing.assert_allclose(found, expected / expected.std(), rtol=1e-4, atol=1e-6)
    alike = ppo.standardised(jnp.ones((4, 3)), REAL)
    np.testing.assert_array_equal(np.asarray(alike)[REAL], 0.0)


@functools.cache
def first_state(config):
    params = {"policy": new_policy(POLICY, INPUTS)}
    return trainer.new_state(params, ppo.make_optimizer(config), selects=False)


def run(config, steps):
    state, found = first_state(config), []
    for step in range(steps):
        state, metrics = ppo.train_step(
            jax.random.key(step), state, INPUTS, policy=POLICY, config=config
        )
        found.append({name: float(value) for name, value in metrics.items()})
    return state, found


def test_the_mean_speedup_of_a_graph_improves():
    before = ppo.train_step._cache_size()
    state, found = run(CONFIG, 40)
    assert ppo.train_step._cache_size() == before + 1
    speedup = [metrics["speedup"] for metrics in found]
    assert np.mean(speedup[-5:]) > np.mean(speedup[:5]) + 0.1
    assert int(state.step) == 40
    assert set(found[0]) == set(ppo.METRICS)
    assert found[-1]["entropy"] < 0.8 * found[0]["entropy"]
    assert all(1 <= metrics["passes"] <= CONFIG.passes for metrics in found)
    assert all(m["best_speedup"] >= m["speedup"] for m in found)


def test_passes_end_where_the_policy_has_moved_too_far():
    """The pass that finds so changes nothing."""
    wild = dataclasses.replace(CONFIG, learning_rate=1.0, target_divergence=1e-6)
    state, found = run(wild, 1)
    assert found[0]["passes"] == 2
    assert optax.tree_utils.tree_get(state.opt_state, "count") == 1
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), state.params, first_state(wild).params)
    assert 0.5 < max(jax.tree.leaves(moved)) < 1.01  # Adam's first step


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0.0},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"passes": 0},
        {"trajectories": 1},
        {"final_rate": 0.0},
        {"final_entropy": 2.0},
    ],
)
def test_options_out_of_range_are_errors(options):
    with pytest.raises(OptionError):
        ppo.learner(POLICY, PPOTraining(**options))


def test_the_learner_is_the_training_step():
    learner = ppo.learner(POLICY, CONFIG)
    assert (learner.name, CONFIG.validation_temperature) == ("ppo", CONFIG.temperature)
    batch = FlowBatch(INPUTS, np.float32(CONFIG.temperature))
    batch = jax.tree.map(lambda leaf: np.asarray(leaf)[None], batch)
    state, metrics = learner.update(jax.random.key(0), first_state(CONFIG), batch)
    assert set(metrics) == set(learner.metrics)
    expected, _ = run(CONFIG, 1)
    jax.tree.map(np.testing.assert_array_equal, state.params, expected.params)

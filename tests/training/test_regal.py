"""REINFORCE: exact gradients where actions can be enumerated, baselines, devices, and learning."""

import dataclasses
import functools
import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.training import regal as training
from regal_jax.training.regal import TrainingConfig, init_state
from regal_jax.training.regal_examples import Examples, prepare_examples
from tests.cpu_devices import run_on_devices
from tests.policies.cases import chain, inputs_of, random_params
from tests.training.cases import CONFIG, REGAL, buckets, run_steps

ONE_SAMPLE = TrainingConfig(samples=1, baseline_weight=0.25)
TINY = RegalConfig(size=4, rounds=2, placement=False)
"""On the chain of two ops: 4 choices of two, 16 action vectors."""
ALL_ACTIONS = jnp.array(list(itertools.product(range(2), repeat=4)), jnp.int32).reshape(-1, 2, 2)
REWARDS = -jnp.asarray(np.random.default_rng(0).uniform(0.5, 1.5, 16), jnp.float32)


def one_graph(count=1):
    inputs = jax.tree.map(lambda leaf: np.stack([leaf] * count), inputs_of(chain(2)))
    return Examples(graph=np.zeros((count, 1), np.int32), inputs=inputs, reference=np.ones(count))


def new_params(config):
    def init(key):
        return init_state(key, inputs_of(chain(2)), TINY, config).params

    return random_params(init, jax.random.key(0))


@jax.jit
def probabilities(params):
    """float32[16]: of all action vectors."""
    inputs = inputs_of(chain(2))
    log_prob = functools.partial(TINY.policy.log_prob, params["policy"], inputs)
    return jnp.exp(jax.vmap(log_prob)(ALL_ACTIONS))


def expected_reward(params):
    """Equation 7 by enumeration."""
    return jnp.sum(probabilities(params) * REWARDS)


def assert_trees_close(found, expected, **tolerance):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **tolerance), found, expected)


@functools.cache
def surrogate_gradient(config):
    loss = functools.partial(training._loss, regal=TINY, config=config)
    return jax.jit(jax.vmap(jax.grad(loss, has_aux=True), (None, None, 0, 0)))


def mean_over_actions(weights, gradients):
    return jax.tree.map(lambda leaf: jnp.tensordot(weights, leaf, 1), gradients)


def test_the_expected_gradient_is_that_of_the_expected_reward():
    """One sample, learned baseline: exact whatever b(G) is (eq. 8)."""
    params = new_params(ONE_SAMPLE)
    gradients, _ = surrogate_gradient(ONE_SAMPLE)(
        params, one_graph(), ALL_ACTIONS[:, None, None], REWARDS[:, None, None]
    )
    probability = probabilities(params)
    found = mean_over_actions(probability, gradients)["policy"]
    exact = jax.jit(jax.grad(lambda p: -expected_reward(p)))(params)["policy"]
    assert_trees_close(found, exact, rtol=1e-3, atol=1e-5)
    assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(exact)) > 1e-2


def test_the_expected_gradient_with_two_samples_leave_one_out_and_an_entropy_bonus():
    config = TrainingConfig(samples=2, entropy_weight=0.5)
    params = new_params(config)
    pairs = np.array(list(itertools.product(range(16), repeat=2)))
    gradients, _ = surrogate_gradient(config)(
        params, one_graph(), ALL_ACTIONS[pairs][:, None], REWARDS[pairs][:, None]
    )
    probability = probabilities(params)
    weights = probability[pairs[:, 0]] * probability[pairs[:, 1]]
    found = mean_over_actions(weights, gradients)["policy"]

    def loss(params):
        entropy = TINY.policy.entropy(params["policy"], inputs_of(chain(2)), ALL_ACTIONS[0])
        return -expected_reward(params) - 0.5 * entropy

    assert_trees_close(found, jax.jit(jax.grad(loss))(params)["policy"], rtol=1e-3, atol=1e-5)


def test_leave_one_out_baselines_by_hand():
    config = TrainingConfig(samples=3)
    rewards = jnp.array([[1.0, 2.0, 6.0], [0.0, 0.0, 3.0]])
    baselines = training._baselines({}, None, rewards, TINY, config)
    np.testing.assert_allclose(baselines, [[4.0, 3.5, 1.5], [1.5, 1.5, 0.0]])


def test_the_baseline_learns_with_weight_lambda():
    """lambda / 2 (r - b)^2 is all that the baseline's parameters see."""
    params = new_params(ONE_SAMPLE)
    gradients, metrics = surrogate_gradient(ONE_SAMPLE)(
        params, one_graph(), ALL_ACTIONS[:, None, None], REWARDS[:, None, None]
    )

    @jax.jit
    def by_hand(baseline):
        value = training._baseline(TINY).apply(baseline, inputs_of(chain(2)))
        return 0.25 * 0.5 * jnp.mean((REWARDS - value) ** 2)

    found = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), gradients["baseline"])
    assert_trees_close(found, jax.grad(by_hand)(params["baseline"]), rtol=1e-3, atol=1e-5)
    error = by_hand(params["baseline"]) / 0.25
    np.testing.assert_allclose(jnp.mean(metrics["baseline_error"]), error, rtol=1e-4)
    np.testing.assert_allclose(metrics["reward"], REWARDS)


def test_one_compilation_serves_all_steps():
    state, history = run_steps(4)
    assert int(state.step) == 4
    assert np.all(np.isfinite(history))
    assert np.all(np.array(history) < 0)


def test_training_is_a_function_of_its_keys():
    (first, _), (again, _) = run_steps(2), run_steps(2)
    chex.assert_trees_all_equal(first, again)


def test_a_step_moves_the_policy_by_at_most_the_learning_rate():
    """Adam's first step is the learning rate times the gradient's sign."""
    state, _ = run_steps(0)
    moved, _ = run_steps(1)
    changes = [
        np.abs(np.asarray(a) - np.asarray(b)).max()
        for a, b in zip(jax.tree.leaves(state.params), jax.tree.leaves(moved.params), strict=True)
    ]
    np.testing.assert_allclose(max(changes), CONFIG.learning_rate, rtol=1e-2)


def test_training_finds_the_better_distributions(monkeypatch):
    """The reward of a choice is known: the share of action 1. Sixty steps take it up from half."""

    def share_of_ones(keys, batch, actions, model, regal, config):
        return jnp.mean(actions.astype(jnp.float32), axis=(2, 3)) - 1.0

    monkeypatch.setattr(training, "_rewards", share_of_ones)
    config = dataclasses.replace(CONFIG, samples=8, learning_rate=0.03)
    _, history = run_steps(60, config)
    assert abs(np.mean(history[:3]) + 0.5) < 0.2
    assert np.mean(history[-5:]) > -0.15


TWO_DEVICES = """
import jax, numpy as np
from tests.training.cases import run_steps
state, history = run_steps(2, num_devices=2)
print(len(jax.devices()), *history)
print(*(float(x) for leaf in jax.tree.leaves(state.params) for x in np.ravel(leaf)))
"""


def test_two_devices_give_the_parameters_of_one():
    printed = run_on_devices(TWO_DEVICES, 2)
    rewards, params = (np.array(line.split(), float) for line in printed.strip().split("\n"))
    state, history = run_steps(2)
    assert rewards[0] == 2
    np.testing.assert_allclose(rewards[1:], history, rtol=1e-5)
    expected = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(state.params)])
    np.testing.assert_allclose(params, expected, rtol=1e-3, atol=1e-5)


def test_examples_know_the_memory_of_devices():
    graph = chain(6)
    make = functools.partial(
        prepare_examples, [graph], objective="makespan", regal=REGAL, evaluations=100, seed=0
    )
    (free,), (tight,) = make(), make(memory_capacity=1)
    assert free.model.capacities is None
    assert set(tight.model.capacities) == {1.0}
    assert tight.examples.reference[0] > free.examples.reference[0] == graph.duration.sum()


def test_rewards_are_minus_the_cost_over_the_reference():
    """Actions that change nothing but the luck of the search: rewards near -1."""
    bucket = buckets()[0]
    batch = bucket.examples
    shape = (3, 2, batch.inputs.real.shape[1], REGAL.space.num_choices)
    rewards = training._rewards(
        jax.random.split(jax.random.key(0), 3),
        batch,
        jnp.zeros(shape, jnp.int32),
        bucket.model,
        REGAL,
        CONFIG,
    )
    assert rewards.shape == (3, 2)
    costs = -np.asarray(rewards) * batch.reference[:, None]
    np.testing.assert_allclose(costs, np.rint(costs), atol=1e-3)  # makespans are whole here
    assert np.all((rewards > -1.5) & (rewards <= -0.6))
    # Common random numbers: same actions, same reward.
    np.testing.assert_array_equal(rewards[:, 0], rewards[:, 1])

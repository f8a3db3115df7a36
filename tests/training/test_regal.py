"""REINFORCE: exact gradients where actions can be enumerated, baselines, devices, and learning."""

import dataclasses
import functools
import itertools
import os
import subprocess
import sys

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from regal_jax.policies.regal import RegalConfig
from regal_jax.training import regal as training
from regal_jax.training.regal import Examples, TrainingConfig, init_state, train_step
from tests.policies.cases import chain, inputs_of
from tests.training.cases import CONFIG, REGAL, buckets

TINY = RegalConfig(size=4, rounds=2, placement=False)
"""On the chain of two ops: 4 choices of two, 16 action vectors."""
ALL_ACTIONS = jnp.array(list(itertools.product(range(2), repeat=4)), jnp.int32).reshape(-1, 2, 2)
REWARDS = -jnp.asarray(np.random.default_rng(0).uniform(0.5, 1.5, 16), jnp.float32)


def one_graph(count=1):
    inputs = jax.tree.map(lambda leaf: np.stack([leaf] * count), inputs_of(chain(2)))
    return Examples(graph=np.zeros((count, 1), np.int32), inputs=inputs, reference=np.ones(count))


def new_params(config, *, noise=0.5):
    state = init_state(jax.random.key(0), inputs_of(chain(2)), TINY, config)
    leaves, tree = jax.tree.flatten(state.params)
    rng = np.random.default_rng(1)
    leaves = [leaf + noise * rng.normal(size=leaf.shape).astype(np.float32) for leaf in leaves]
    return jax.tree.unflatten(tree, leaves)


def log_prob(params, actions):
    return TINY.policy.log_prob(params["policy"], inputs_of(chain(2)), actions)


def expected_reward(params):
    """Equation 7 by enumeration."""
    probability = jnp.exp(jax.vmap(lambda actions: log_prob(params, actions))(ALL_ACTIONS))
    return jnp.sum(probability * REWARDS)


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
    config = TrainingConfig(samples=1)
    params = new_params(config)
    gradients, _ = surrogate_gradient(config)(
        params, one_graph(), ALL_ACTIONS[:, None, None], REWARDS[:, None, None]
    )
    probability = jnp.exp(jax.vmap(lambda actions: log_prob(params, actions))(ALL_ACTIONS))
    found = mean_over_actions(probability, gradients)["policy"]
    exact = jax.grad(lambda p: -expected_reward(p))(params)["policy"]
    assert_trees_close(found, exact, rtol=1e-3, atol=1e-5)
    assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(exact)) > 1e-2


def test_the_expected_gradient_with_two_samples_and_leave_one_out():
    config = TrainingConfig(samples=2)
    params = new_params(config)
    pairs = np.array(list(itertools.product(range(16), repeat=2)))
    gradients, _ = surrogate_gradient(config)(
        params, one_graph(), ALL_ACTIONS[pairs][:, None], REWARDS[pairs][:, None]
    )
    probability = jnp.exp(jax.vmap(lambda actions: log_prob(params, actions))(ALL_ACTIONS))
    weights = probability[pairs[:, 0]] * probability[pairs[:, 1]]
    found = mean_over_actions(weights, gradients)["policy"]
    exact = jax.grad(lambda p: -expected_reward(p))(params)["policy"]
    assert_trees_close(found, exact, rtol=1e-3, atol=1e-5)


def test_leave_one_out_baselines_by_hand():
    config = TrainingConfig(samples=3)
    rewards = jnp.array([[1.0, 2.0, 6.0], [0.0, 0.0, 3.0]])
    baselines = training._baselines({}, None, rewards, TINY, config)
    np.testing.assert_allclose(baselines, [[4.0, 3.5, 1.5], [1.5, 1.5, 0.0]])


def loss_and_gradient(config, params, rewards):
    actions = ALL_ACTIONS[jnp.array([3, 9])][:, None]
    loss = functools.partial(training._loss, regal=TINY, config=config)
    return jax.grad(loss, has_aux=True)(params, one_graph(2), actions, rewards)


def test_the_baseline_learns_with_weight_lambda():
    """lambda / 2 (r - b)^2 is all that the baseline's parameters see; its mean over two graphs."""
    rewards = jnp.array([[-1.0], [-0.5]])
    config = TrainingConfig(samples=1, baseline_weight=0.25)
    params = new_params(config)

    def by_hand(baseline):
        value = training._baseline(TINY).apply(baseline, inputs_of(chain(2)))
        return 0.25 * 0.5 * jnp.mean((rewards - value) ** 2)

    gradient, metrics = loss_and_gradient(config, params, rewards)
    assert_trees_close(
        gradient["baseline"], jax.grad(by_hand)(params["baseline"]), rtol=1e-4, atol=1e-6
    )
    error = by_hand(params["baseline"]) / 0.25
    np.testing.assert_allclose(metrics["baseline_error"], error, rtol=1e-5)
    np.testing.assert_allclose(metrics["reward"], -0.75)
    unweighted = dataclasses.replace(config, baseline_weight=0.0)
    none, _ = loss_and_gradient(unweighted, params, rewards)
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(none["baseline"]))
    assert_trees_close(none["policy"], gradient["policy"], rtol=1e-5, atol=1e-7)


def test_the_entropy_bonus_alone_pushes_towards_uniform():
    config = TrainingConfig(samples=2, entropy_weight=1.0)
    params = new_params(config)
    actions = ALL_ACTIONS[jnp.array([[3, 9]])]
    loss = functools.partial(training._loss, regal=TINY, config=config)
    gradient, before = jax.grad(loss, has_aux=True)(params, one_graph(), actions, jnp.zeros((1, 2)))
    params = jax.tree.map(lambda p, g: p - 0.02 * g, params, gradient)
    _, after = loss(params, one_graph(), actions, jnp.zeros((1, 2)))
    assert before["entropy"] < after["entropy"] <= np.log(2)


def one_device_mesh():
    return Mesh(np.array(jax.devices()[:1]), ("graphs",))


@functools.cache
def jitted_step(config=CONFIG, traces=1):
    """A jitted ``train_step`` that fails if it is traced again."""
    step = functools.partial(train_step, regal=REGAL, config=config, mesh=one_device_mesh())
    chex.clear_trace_counter()
    return jax.jit(chex.assert_max_traces(step, n=traces), static_argnames="model")


def run_steps(count, config=CONFIG, seed=0):
    bucket = buckets()[0]
    example = bucket.examples.take(np.array(0)).inputs
    state = init_state(jax.random.key(seed), example, REGAL, config)
    history = []
    for step in range(count):
        rows = np.random.default_rng((seed, step)).integers(3, size=config.batch_size)
        state, metrics = jitted_step(config)(
            jax.random.key(step), state, bucket.examples.take(rows), model=bucket.model
        )
        history.append(float(metrics["reward"]))
    return state, history


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
    np.testing.assert_allclose(max(changes), CONFIG.learning_rate, rtol=1e-3)


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
import sys
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from flax.serialization import msgpack_serialize
from regal_jax.training.regal import init_state, train_step
from tests.training.cases import CONFIG, REGAL, buckets

count = int(sys.argv[1])
mesh = Mesh(np.array(jax.devices()[:count]), ("graphs",))
bucket = buckets()[0]
batch = bucket.examples.take(np.array([0, 2]))
state = init_state(jax.random.key(0), batch.take(np.array(0)).inputs, REGAL, CONFIG)
step = jax.jit(
    lambda key, state, batch: train_step(
        key, state, batch, model=bucket.model, regal=REGAL, config=CONFIG, mesh=mesh
    )
)
batch = jax.device_put(batch, NamedSharding(mesh, P("graphs")))
for seed in range(2):
    state, metrics = step(jax.random.key(seed), state, batch)
print(len(mesh.devices), float(metrics["reward"]), float(metrics["gradient_norm"]))
print(*(float(x) for leaf in jax.tree.leaves(state.params) for x in np.ravel(leaf)))
"""


def test_two_devices_give_the_parameters_of_one():
    environment = dict(os.environ, XLA_FLAGS="--xla_force_host_platform_device_count=2")
    found = []
    for count in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", TWO_DEVICES, count],
            capture_output=True,
            text=True,
            env=environment,
            timeout=300,
            check=True,
        )
        metrics, params = done.stdout.strip().split("\n")
        found.append((np.array(metrics.split(), float), np.array(params.split(), float)))
    (one, one_params), (two, two_params) = found
    assert (one[0], two[0]) == (1, 2)
    np.testing.assert_allclose(two[1:], one[1:], rtol=1e-4)
    np.testing.assert_allclose(two_params, one_params, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("samples", [1, 2])
def test_rewards_are_minus_the_cost_over_the_reference(samples):
    """Actions that change nothing but the luck of the search: rewards near -1."""
    config = dataclasses.replace(CONFIG, samples=samples)
    bucket = buckets()[0]
    batch = bucket.examples
    shape = (3, samples, batch.inputs.real.shape[1], REGAL.space.num_choices)
    rewards = training._rewards(
        jax.random.split(jax.random.key(0), 3),
        batch,
        jnp.zeros(shape, jnp.int32),
        bucket.model,
        REGAL,
        config,
    )
    assert rewards.shape == (3, samples)
    costs = -np.asarray(rewards) * batch.reference[:, None]
    np.testing.assert_allclose(costs, np.rint(costs), atol=1e-3)  # makespans are whole here
    assert np.all((rewards > -1.5) & (rewards <= -0.6))
    if samples == 2:  # common random numbers: same actions, same reward
        np.testing.assert_array_equal(rewards[:, 0], rewards[:, 1])

"""Flow networks: that training makes the sampler's distribution that of the reward."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from regal_jax import registry
from regal_jax.datasets.task_graphs import task_graph
from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError
from regal_jax.policies.gflownet import rollout
from regal_jax.policies.gflownet.policy import FlowConfig, flow_inputs
from regal_jax.training import flow, flow_objectives, gflownet, trainer
from regal_jax.training.flow import FlowBatch
from regal_jax.training.flow_objectives import log_reward
from regal_jax.training.gflownet import FlowTraining, LogPartition
from tests.policies.cases import random_params
from tests.policies.gflownet.cases import decisions, log_rewards, new_policy, terminal_distribution

GRAPH = task_graph([(0, 2), (1, 2), (1, 3), (3, 4)], [2.0, 1.0, 3.0, 1.5, 0.5])
"""Of 68 sets of two chains, 136 pairs of chains; speedups 1 to 1.6."""
ENCODE_ONCE = FlowConfig(
    network="encode_once",
    feature_set="extended",
    encoder="mlp",
    layers=1,
    size=16,
    num_devices=2,
    head_width=16,
)
REENCODE = FlowConfig(
    network="reencode",
    layers=1,
    size=16,
    heads=0,
    heads_by_relation="reduction=1,reduction_back=1,incomparable=1",
    head_size=8,
    num_devices=2,
)
TRAINING = FlowTraining(
    num_devices=2,
    trajectories=60,
    learning_rate=3e-3,
    min_temperature=0.2,
    max_temperature=2.0,
    steps=1200,
    final_rate=0.1,
)


@functools.cache
def inputs_of(policy):
    return flow_inputs(GRAPH, Platform(2), policy)


def alone(tree):
    """As an update's only problem."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[None], tree)


def first_state(policy, config):
    params = {"policy": new_policy(policy, inputs_of(policy))}
    if config.loss == "trajectory_balance":
        init = LogPartition(policy).init
        params["log_partition"] = random_params(
            lambda: init(jax.random.key(0), inputs_of(policy), jnp.float32(0.0)), scale=0.1
        )
    return trainer.new_state(params, gflownet.make_optimizer(config), selects=False)


def trained(policy, config):
    """(state, losses)."""
    state, losses, update = first_state(policy, config), [], gflownet.learner(policy, config).update
    for step in range(config.steps):
        uniform = np.random.default_rng(step).uniform(*np.log(config.temperatures))
        batch = alone(FlowBatch(inputs_of(policy), np.float32(np.exp(uniform))))
        state, metrics = update(jax.random.key(step), state, batch)
        losses.append(metrics["loss"])
    return state, np.array(losses)


def total_variation(policy, params, temperature):
    """Between where the sampler ends and R / Z, over all complete schedules."""
    decided = decisions(policy, params, GRAPH, np.log(temperature), inputs=inputs_of(policy))
    found = terminal_distribution(decided, GRAPH.num_ops)
    assert sum(found.values()) == pytest.approx(1.0, abs=1e-5)
    reward = np.exp(log_rewards(found, GRAPH, 2, temperature))
    return np.abs(np.array(list(found.values())) - reward / reward.sum()).sum() / 2


@pytest.mark.parametrize("policy", [ENCODE_ONCE, REENCODE], ids=["encode_once", "reencode"])
def test_one_network_samples_in_proportion_to_the_reward_at_every_temperature(policy):
    before = gflownet.train_step._cache_size()
    state, losses = trained(policy, TRAINING)
    assert gflownet.train_step._cache_size() == before + 1
    new = new_policy(policy, inputs_of(policy))
    for temperature in (0.4, 0.8, 1.6):
        assert total_variation(policy, new, temperature) > 0.1
        assert total_variation(policy, state.params["policy"], temperature) < 0.05
    assert np.mean(losses[-50:]) < 0.1 * np.mean(losses[:10])


def log_partition(temperature):
    """Of all sets of chains."""
    new = new_policy(ENCODE_ONCE, inputs_of(ENCODE_ONCE))
    decided = decisions(ENCODE_ONCE, new, GRAPH, inputs=inputs_of(ENCODE_ONCE))
    ends = terminal_distribution(decided, GRAPH.num_ops)
    return float(np.log(np.sum(np.exp(log_rewards(ends, GRAPH, 2, temperature)))))


def test_trajectory_balance_learns_the_log_partition_function():
    config = dataclasses.replace(TRAINING, loss="trajectory_balance", learning_rate=5e-3)
    state, losses = trained(ENCODE_ONCE, config)
    assert np.mean(losses[-50:]) < 0.1 * np.mean(losses[:10])
    for temperature in (0.4, 1.5):
        found = LogPartition(ENCODE_ONCE).apply(
            state.params["log_partition"], inputs_of(ENCODE_ONCE), jnp.float32(np.log(temperature))
        )
        assert float(found) == pytest.approx(log_partition(temperature), abs=0.2)


def test_an_update_reports_what_it_drew():
    state = first_state(ENCODE_ONCE, TRAINING)
    after, metrics = gflownet.train_step(
        jax.random.key(3),
        state,
        *alone((inputs_of(ENCODE_ONCE), np.float32(0.5))),
        policy=ENCODE_ONCE,
        config=TRAINING,
    )
    drawn = jax.jit(
        lambda params: rollout.sample(
            registry.make_policy(ENCODE_ONCE),
            params,
            jax.random.split(jax.random.key(3), 1)[0],
            inputs_of(ENCODE_ONCE),
            jnp.log(jnp.float32(0.5)),
            num_devices=2,
            count=60,
        )
    )(state.params["policy"])
    speedup = 8.0 / np.asarray(drawn.makespan)
    assert float(metrics["speedup"]) == pytest.approx(speedup.mean(), rel=1e-5)
    assert float(metrics["best_speedup"]) == pytest.approx(speedup.max(), rel=1e-5)
    assert float(metrics["temperature"]) == 0.5
    assert set(metrics) == set(gflownet.METRICS)
    assert (int(after.step), int(state.step)) == (1, 0)
    reward = log_reward(speedup, 2, 0.5)
    np.testing.assert_allclose(reward, (speedup - 2) / 0.5, rtol=1e-6)


def test_an_update_on_several_graphs_goes_down_their_mean_loss():
    config = dataclasses.replace(TRAINING, problems=2, trajectories=10, loss="damped_variance")
    state, key = first_state(ENCODE_ONCE, config), jax.random.key(5)
    temperature, inputs = np.float32([0.3, 1.5]), inputs_of(ENCODE_ONCE)
    both = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), inputs)
    _, metrics = gflownet.train_step(
        key, state, both, temperature, policy=ENCODE_ONCE, config=config
    )

    def loss(params):
        losses = []
        for own, each in zip(jax.random.split(key), temperature, strict=True):
            seen = inputs, np.log(each)
            drawn = flow.drawn(state.params["policy"], own, *seen, ENCODE_ONCE, config)
            reward = log_reward(8.0 / drawn.makespan, 2, each)
            flows = gflownet.trajectory_flows(params, *seen, drawn, reward, ENCODE_ONCE, config)
            zeta = flow_objectives.implied_log_partition(flows)
            losses.append(jnp.log(1 + jnp.var(zeta)))
        return sum(losses) / 2

    value, gradient = jax.jit(jax.value_and_grad(loss))(state.params)
    assert float(metrics["loss"]) == pytest.approx(float(value), rel=1e-4)
    norm = float(optax.global_norm(gradient))
    assert float(metrics["gradient_norm"]) == pytest.approx(norm, rel=1e-3)
    assert float(metrics["temperature"]) == pytest.approx(0.45**0.5, rel=1e-5)


def test_temperatures_are_log_uniform():
    plan = FlowTraining(steps=2000, num_devices=2)
    batches = flow._batches([GRAPH], ENCODE_ONCE, plan, 0, 0)
    logs = np.log([batch.data.temperature.item() for batch in batches])
    assert len(logs) == 2000
    assert np.log(0.01) <= logs.min() < np.log(0.011)
    assert np.log(0.9) < logs.max() <= 0
    counts, _ = np.histogram(logs, 4, (np.log(0.01), 0))
    assert counts.min() > 430


@pytest.mark.parametrize(
    "options",
    [
        {"min_temperature": 0.0},
        {"min_temperature": 2.0},
        {"min_temperature": float("nan")},
        {"max_temperature": float("inf")},
        {"test_temperature": 0.0},
        {"test_temperature": float("nan")},
    ],
)
def test_temperatures_out_of_range_are_errors(options):
    with pytest.raises(OptionError, match="temperatures need 0 < min_temperature"):
        gflownet.learner(ENCODE_ONCE, FlowTraining(**options))


def test_unknown_losses_and_rates_are_errors():
    with pytest.raises(OptionError, match="loss is 'flow': one of log_partition_variance, "):
        gflownet.learner(ENCODE_ONCE, FlowTraining(loss="flow"))
    with pytest.raises(OptionError, match="problems must be at least 1, got 0"):
        gflownet.learner(ENCODE_ONCE, FlowTraining(problems=0))
    for rate in (0.0, 1.1, float("nan")):
        with pytest.raises(OptionError, match="final_rate must be in"):
            gflownet.learner(ENCODE_ONCE, FlowTraining(final_rate=rate))


def test_the_learning_rate_decays_to_its_share():
    """Adam's steps for a gradient that stays the same are the learning rate."""
    config = FlowTraining(steps=10, learning_rate=0.5, final_rate=0.01)
    optimizer, moves = gflownet.make_optimizer(config), []
    params = jnp.zeros(())
    state = optimizer.init(params)
    for _ in range(11):
        update, state = optimizer.update(jnp.float32(0.5), state, params)
        moves.append(-float(update))
    np.testing.assert_allclose(moves, 0.5 * 0.01 ** (np.arange(11) / 10), rtol=1e-4)


def test_speedups_of_graphs_that_take_no_time_are_one():
    empty = flow_inputs(task_graph([], [0.0, 0.0]), Platform(2), REENCODE)
    np.testing.assert_array_equal(flow.speedups(empty, jnp.zeros(3)), 1.0)
    found = flow.speedups(inputs_of(REENCODE), jnp.array([8.0, 5.0]))
    np.testing.assert_allclose(found, [1.0, 1.6])


def test_the_log_partition_ignores_padding():
    params = random_params(
        lambda: LogPartition(REENCODE).init(
            jax.random.key(0), inputs_of(REENCODE), jnp.float32(0.0)
        )
    )
    large = flow_inputs(GRAPH, Platform(2), REENCODE, 9, 8)
    found, expected = (
        LogPartition(REENCODE).apply(params, inputs, jnp.float32(-1.0))
        for inputs in (large, inputs_of(REENCODE))
    )
    assert float(found) == pytest.approx(float(expected), rel=1e-5)

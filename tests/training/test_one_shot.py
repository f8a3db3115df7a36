"""Algorithm 1: costs, their standardisation, the gradient by a plain formula, and learning."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from regal_jax.datasets.job_shop import uniform_job_shops
from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.errors import OptionError
from regal_jax.policies.one_shot.policy import OneShotConfig, one_shot_policy
from regal_jax.training import one_shot as reinforce
from regal_jax.training.one_shot import OneShotTraining, prepared
from regal_jax.training.reinforce import standardised

POLICY = OneShotConfig(encoder="mlp", size=8, layers=1, dimensions=2, feature_set="extended")
SERIAL = dataclasses.replace(POLICY, generation="serial")
CONFIG = OneShotTraining(samples=64, learning_rate=0.02, clip_norm=1e9, c_logits=0.05)
GRAPHS = uniform_job_shops(5, 4, count=2)
"""20 ops, padded to 24."""


@functools.cache
def examples(policy=POLICY):
    return [prepared(graph, policy) for graph in GRAPHS]


@functools.cache
def first_state(config=CONFIG, policy=POLICY):
    init = functools.partial(
        reinforce.init_state, inputs=examples()[0].inputs, policy=policy, config=config
    )
    return jax.jit(init)(jax.random.key(0))


def step(state, config=CONFIG, index=0, batch=None, policy=POLICY):
    key = jax.random.key(index)
    return reinforce.train_step(key, state, batch or examples()[:1], policy=policy, config=config)


def test_examples_are_padded_to_few_sizes():
    example = examples()[0]
    assert example.inputs.features.shape == (24, 19 + 2)
    assert example.inputs.relations.senders.shape == (16,)
    assert example.inputs.relations.real.sum() == example.problem.num_ops == 20


def test_standardised_costs():
    """Equation 13: a deviation below epsilon counts as epsilon."""
    costs = np.array([1e9 + 1, 1e9 + 3, 1e9 + 5])
    deviation = np.sqrt(8 / 3)
    np.testing.assert_allclose(standardised(costs, 0.1), np.array([-2, 0, 2]) / deviation)
    np.testing.assert_allclose(standardised(costs, 4.0), [-0.5, 0, 0.5])
    assert standardised(np.full(3, 7.0), 0.1).tolist() == [0, 0, 0]


def test_logits_have_no_padding_and_are_those_of_the_policy():
    example = examples()[1]
    found = reinforce.op_logits(first_state().params, example, POLICY)
    expected = one_shot_policy(POLICY).encode(first_state().params, example.inputs)
    assert found.shape == (20,)
    np.testing.assert_allclose(found, expected[:20], rtol=1e-5)


@functools.partial(jax.jit, static_argnames="policy")
@jax.grad
def plain_gradient(params, inputs, rankings, advantage, c_logits, policy):
    """Of algorithm 1's loss, its softmaxes written out place by place."""
    logits = one_shot_policy(policy).encode(params, inputs)[:20]
    ranked = logits[rankings]
    left = jnp.triu(jnp.ones((20, 20), bool))  # [place, op at a later place]
    total = jax.nn.logsumexp(jnp.where(left, ranked[:, None], -jnp.inf), axis=2).sum(axis=1)
    log_prob = ranked.sum(axis=1) - total
    return jnp.mean(advantage * log_prob) + c_logits * jnp.mean(logits**2)


@pytest.mark.parametrize(
    ("baseline", "policy"),
    [("standardised", POLICY), ("greedy_rollout", SERIAL)],
)
def test_the_gradient_is_that_of_the_plain_formula(baseline, policy, monkeypatch):
    """Adam's first moment is a tenth of it."""
    config = dataclasses.replace(CONFIG, baseline=baseline)
    params = jax.tree.map(lambda leaf: leaf + 0.1, first_state(config, policy).params)
    worse = jax.tree.map(lambda leaf: leaf + 2.0, params)
    state = dataclasses.replace(first_state(config, policy), params=params, best_params=worse)
    seen = []
    inner = reinforce._gradient
    monkeypatch.setattr(reinforce, "_gradient", lambda *a: seen.append(a) or inner(*a))
    new, metrics = step(state, config, batch=examples(policy)[:1], policy=policy)
    _, inputs, rankings, advantage, *_ = seen[0]
    problem = examples(policy)[0].problem
    rows = -np.argsort(rankings[:, :20], axis=1).astype(np.float32)
    assert (rankings[:, 20:] == np.arange(20, 24)).all()
    costs = problem.makespans(rows)
    if baseline == "standardised":
        expected_advantage = (costs - costs.mean()) / costs.std()
    else:
        greedy = np.asarray(one_shot_policy(policy).encode(worse, inputs))[:20]
        expected_advantage = costs - problem.makespans(greedy[None])
    np.testing.assert_allclose(advantage, expected_advantage, rtol=1e-4, atol=1e-4)
    drawn = rankings[:, :20]
    expected = plain_gradient(state.params, inputs, drawn, expected_advantage, 0.05, policy=policy)
    moment = optax.tree_utils.tree_get(new.opt_state, "mu")
    size = float(optax.global_norm(expected))
    assert size > 1e-2
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(10 * a, b, rtol=1e-3, atol=1e-4 * size),
        moment,
        expected,
    )
    relative = costs / problem.lower_bound
    assert metrics["cost"] == pytest.approx(relative.mean())
    assert metrics["best_cost"] == pytest.approx(relative.min())
    assert metrics["cost_std"] == pytest.approx(relative.std())
    assert metrics["gradient_norm"] == pytest.approx(size, rel=1e-3)
    logits = one_shot_policy(policy).encode(state.params, inputs)[:20]
    assert metrics["logit_norm"] == pytest.approx(float(np.mean(logits**2)), rel=1e-4)
    assert (int(new.step), int(new.epoch)) == (1, 0)
    chex.assert_trees_all_equal(new.best_params, worse)


def test_a_batch_has_the_mean_gradient_of_its_graphs():
    """The key of a graph goes by its place in the batch."""
    state, moments = first_state(), []
    new, metrics = step(state, batch=examples())
    for index, example in enumerate(examples()):
        key = jax.random.fold_in(jax.random.key(0), index)
        moments.append(reinforce._one_graph(key, state, example, POLICY, CONFIG)[0])
    expected = jax.tree.map(lambda a, b: (a + b) / 2, *moments)
    found = optax.tree_utils.tree_get(new.opt_state, "mu")
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(10 * a, b, rtol=1e-4, atol=1e-5), found, expected
    )
    assert metrics["gradient_norm"] == pytest.approx(float(optax.global_norm(expected)), rel=1e-4)


def test_the_gradient_is_clipped():
    config = dataclasses.replace(CONFIG, clip_norm=1e-3)
    new, metrics = step(first_state(config), config)
    moment = float(optax.global_norm(optax.tree_utils.tree_get(new.opt_state, "mu")))
    assert moment == pytest.approx(1e-4, rel=1e-3)
    assert metrics["gradient_norm"] > 1e-2  # before the clip


def test_signs_of_the_encoding_are_flipped_in_training(monkeypatch):
    seen = []
    inner = reinforce._gradient
    monkeypatch.setattr(reinforce, "_gradient", lambda *a: seen.append(a[1]) or inner(*a))
    for index in range(12):
        step(first_state(), index=index)
    original = examples()[0].inputs.features
    sizes = (original[:, -2:] ** 2).sum(axis=0)
    products = [(inputs.features * original)[:, -2:].sum(axis=0) / sizes for inputs in seen]
    factors = {tuple(np.round(np.asarray(product), 5).tolist()) for product in products}
    assert factors == {(a, b) for a in (-1.0, 1.0) for b in (-1.0, 1.0)}
    for inputs in seen:
        np.testing.assert_array_equal(inputs.features[:, :-2], original[:, :-2])


@pytest.mark.parametrize(
    ("baseline", "policy"),
    [("standardised", POLICY), ("greedy_rollout", POLICY), ("standardised", SERIAL)],
)
def test_training_makes_schedules_shorter(baseline, policy):
    """The excess of the samples over the lower bound falls by more than a quarter."""
    config, history = dataclasses.replace(CONFIG, baseline=baseline, samples=256), []
    state = first_state(config)
    for index in range(60):
        state, metrics = step(state, config, index, examples(policy)[index % 2 :][:1])
        history.append(metrics["cost"])
    assert np.mean(history[-10:]) - 1 < 0.75 * (np.mean(history[:10]) - 1)


def test_logits_are_drawn_to_0():
    """With nothing but eq. 12 to learn from: makespans that are all the same."""
    one = uniform_job_shops(1, 4, count=1)[0]
    example = prepared(one, POLICY)
    config = dataclasses.replace(CONFIG, c_logits=1.0)
    state = first_state(config)
    before = np.abs(reinforce.op_logits(state.params, example, POLICY)).mean()
    for index in range(30):
        state, metrics = step(state, config, index, [example])
        assert metrics["cost_std"] == 0
    assert np.abs(reinforce.op_logits(state.params, example, POLICY)).mean() < 0.5 * before


def test_training_is_a_function_of_its_keys():
    first, again = (step(first_state()) for _ in range(2))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert step(first_state(), index=1)[1] != first[1]


def test_graphs_of_one_shape_share_a_compilation(monkeypatch):
    graphs = [prepared(graph, POLICY) for graph in uniform_job_shops(5, 4, count=4, seed=3)]
    chex.clear_trace_counter()
    traced = chex.assert_max_traces(reinforce._gradient.__wrapped__, n=1)
    monkeypatch.setattr(reinforce, "_gradient", jax.jit(traced, static_argnums=4))
    step(first_state(), batch=graphs)


def test_parameters_that_are_not_finite_are_an_error():
    nan = jax.tree.map(lambda leaf: leaf * jnp.nan, first_state().params)
    with pytest.raises(OptionError, match="training has diverged"):
        step(dataclasses.replace(first_state(), params=nan))


def test_the_defaults_of_the_paper():
    config = OneShotTraining()
    assert (config.samples, config.epochs, config.c_logits, config.epsilon) == (
        1000,
        20,
        0.001,
        0.1,
    )
    assert (config.baseline, config.batch_size) == ("standardised", 1)
    assert OneShotConfig().generation == MachineProblem(GRAPHS[0]).generation == "parallel"

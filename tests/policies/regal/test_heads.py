"""Policies over actions: every head is a proper distribution that ``sample`` draws from."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.graphs.batching import GraphShape
from regal_jax.methods.pretrained import shipped_policy
from regal_jax.policies.regal.policy import RegalConfig, regal_policy
from regal_jax.training import checkpoints
from regal_jax.training.regal_examples import feature_search
from tests.policies.cases import chain, inputs_of, random_graph, random_params

HEADS = ["independent", "autoregressive"]
ENCODERS = ["message_passing", "sequence"]
TINY = {"levels": 2, "placement": False}
"""Two choices of two: 4 action vectors an op, 16 for the chain of two ops."""
INPUTS = inputs_of(chain(2))
ALL_ACTIONS = jnp.array(list(itertools.product(range(2), repeat=4)), jnp.int32).reshape(-1, 2, 2)


def new(head, inputs=INPUTS, space=TINY, *, encoder="message_passing", noise=True):
    """(policy, parameters), random rather than the uniform ones of a new policy."""
    policy = regal_policy(RegalConfig(size=4, rounds=2, encoder=encoder, head=head, **space))
    init = (policy.init, jax.random.key(0), inputs)
    return policy, random_params(*init) if noise else jax.jit(init[0])(*init[1:])


def log_probs(policy, params, inputs=INPUTS, actions=ALL_ACTIONS):
    return np.asarray(
        jax.jit(jax.vmap(lambda a: policy.log_prob(params, inputs, a)))(actions), float
    )


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("head", HEADS)
def test_probabilities_of_all_actions_sum_to_one(head, encoder):
    policy, params = new(head, encoder=encoder)
    logs = log_probs(policy, params)
    np.testing.assert_allclose(np.exp(logs).sum(), 1.0, rtol=1e-5)
    assert np.ptp(logs) > 0.5  # and are not all the same


@pytest.mark.parametrize("head", HEADS)
def test_samples_have_the_frequencies_log_prob_says(head):
    policy, params = new(head)
    count = 4000
    keys = jax.random.split(jax.random.key(1), count)
    actions = jax.jit(jax.vmap(lambda key: policy.sample(params, key, INPUTS)))(keys)
    assert actions.shape == (count, 2, 2)
    assert actions.dtype == np.int32
    codes = np.asarray(actions).reshape(count, 4) @ [8, 4, 2, 1]
    expected = np.exp(log_probs(policy, params))
    deviation = np.sqrt(expected * (1 - expected) / count)
    found = np.bincount(codes, minlength=16) / count
    assert np.all(np.abs(found - expected) < 5 * deviation + 1e-3)


def test_ops_are_independent_in_one_head_and_not_in_the_other():
    dependent = {}
    for head in HEADS:
        probability = np.exp(log_probs(*new(head))).reshape(4, 4)  # [op 0, op 1]
        product = np.outer(probability.sum(axis=1), probability.sum(axis=0))
        dependent[head] = np.abs(probability - product).max()
    assert dependent["independent"] < 1e-6
    assert dependent["autoregressive"] > 1e-3


@pytest.mark.parametrize("head", HEADS)
def test_mode_is_the_greedy_choice(head):
    policy, params = new(head)
    mode = np.asarray(policy.mode(params, INPUTS))
    logs = log_probs(policy, params)
    if head == "independent":
        np.testing.assert_array_equal(mode, ALL_ACTIONS[logs.argmax()])
    probability = np.exp(logs).reshape(4, 4)
    first = probability.sum(axis=1).argmax()  # greedy, op by op
    assert mode[0] @ [2, 1] == first
    assert mode[1] @ [2, 1] == probability[first].argmax()


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("head", HEADS)
def test_padding_is_left_out(head, encoder):
    graph = random_graph(0, num_ops=5)
    space = {"levels": 3, "elite_bias": True}
    inputs = inputs_of(graph)
    padded = inputs_of(graph, GraphShape(9, 20, 40, 8, 8))
    policy, params = new(head, inputs, space, encoder=encoder)
    shape = (9, RegalConfig(**space).space.num_choices)
    actions = jnp.asarray(np.random.default_rng(0).integers(3, size=shape))
    other = actions.at[5:].set(2 - actions[5:])
    log_prob, entropy = jax.jit(policy.log_prob), jax.jit(policy.entropy)
    exact = log_prob(params, inputs, actions[:5])
    for given in (actions, other):
        np.testing.assert_allclose(log_prob(params, padded, given), exact, rtol=1e-4)
    np.testing.assert_allclose(
        entropy(params, padded, actions),
        entropy(params, inputs, actions[:5]),
        rtol=1e-4,
    )
    mode = jax.jit(policy.mode)
    np.testing.assert_array_equal(mode(params, padded)[:5], mode(params, inputs))


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("head", HEADS)
def test_a_new_policy_is_uniform(head, encoder):
    policy, params = new(head, encoder=encoder, noise=False)
    np.testing.assert_allclose(log_probs(policy, params), np.full(16, -np.log(16)), rtol=1e-5)
    entropy = policy.entropy(params, INPUTS, ALL_ACTIONS[3])
    np.testing.assert_allclose(entropy, np.log(2), rtol=1e-5)


@pytest.mark.parametrize("head", HEADS)
def test_entropy_is_that_of_the_distribution(head):
    """Mean over the four choices; with an LSTM, of each choice given those before it."""
    policy, params = new(head)
    logs = log_probs(policy, params)
    each = jax.jit(jax.vmap(lambda actions: policy.entropy(params, INPUTS, actions)))(ALL_ACTIONS)
    assert np.all(np.asarray(each) >= 0)
    assert np.all(np.asarray(each) <= np.log(2) + 1e-6)
    mean = np.sum(np.exp(logs) * np.asarray(each))
    np.testing.assert_allclose(4 * mean, -np.sum(np.exp(logs) * logs), rtol=1e-4)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_gradients_are_finite_and_reach_every_parameter(encoder):
    inputs = inputs_of(random_graph(1, num_ops=5), GraphShape(9, 20, 40, 8, 8))
    policy, params = new("independent", inputs, {"levels": 3}, encoder=encoder)
    actions = jnp.ones((9, RegalConfig(levels=3).space.num_choices), jnp.int32)
    gradient = jax.jit(jax.grad(policy.log_prob))(params, inputs, actions)
    for leaf in jax.tree.leaves(gradient):
        assert np.all(np.isfinite(leaf))
        assert np.any(np.asarray(leaf) != 0)


def test_the_shipped_policy_has_the_parameters_of_its_configuration():
    params, config, _ = checkpoints.load_policy(shipped_policy("peak_memory"), RegalConfig)
    problem = PlacementProblem.on(random_graph(0), Platform(2), "peak_memory")
    inputs = feature_search(jax.random.key(0), problem, config, problem.operand, 0)[0]
    fresh = jax.eval_shape(config.policy.init, jax.random.key(0), inputs)
    assert jax.tree.structure(params) == jax.tree.structure(fresh)
    assert jax.tree.map(np.shape, params) == jax.tree.map(np.shape, fresh)


def test_sampling_is_a_function_of_the_key():
    policy, params = new("autoregressive")
    sample = jax.jit(policy.sample)
    first, again = (sample(params, jax.random.key(5), INPUTS) for _ in range(2))
    np.testing.assert_array_equal(first, again)

"""Policies over orders: what they see of a graph, and that their parts belong together."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from regal_jax.errors import OptionError
from regal_jax.graphs.features.ordering import ordering_features
from regal_jax.graphs.features.relations import relations
from regal_jax.policies.topological_order.policy import OrderingConfig, flip_signs, ordering_policy
from regal_jax.training.ordering_inputs import ordering_inputs
from tests.oracles import ordering as oracle
from tests.policies.cases import chain, random_graph, random_params

TINY = OrderingConfig(
    encoder="topoformer_edges", layers=1, size=6, heads=1, head_size=3, dimensions=2
)
GRAPH = random_graph(0, 6)
INPUTS = ordering_inputs(GRAPH, TINY, 8, 20)


@functools.cache
def params():
    return random_params(ordering_policy(TINY).init, jax.random.key(0), INPUTS)


def test_inputs_are_features_and_relations():
    exact = ordering_inputs(GRAPH, TINY)
    np.testing.assert_array_equal(exact.features, ordering_features(GRAPH, dimensions=2))
    assert exact.features.shape == (6, 8 + 2)
    jax.tree.map(np.testing.assert_array_equal, exact.relations, relations(GRAPH))


def test_padded_inputs():
    assert INPUTS.features.shape == (8, 8 + 2)
    np.testing.assert_array_equal(INPUTS.features[:6], ordering_features(GRAPH, dimensions=2))
    assert not INPUTS.features[6:].any()
    jax.tree.map(np.testing.assert_array_equal, INPUTS.relations, relations(GRAPH, 8, 20))


@pytest.mark.parametrize("sizes", [(5, 20), (8, 2)])
def test_a_graph_that_does_not_fit(sizes):
    with pytest.raises(OptionError, match="does not fit"):
        ordering_inputs(GRAPH, TINY, *sizes)


@pytest.mark.parametrize(("feature_set", "own"), [("paper", 8), ("extended", 13)])
def test_the_number_of_features(feature_set, own):
    config = dataclasses.replace(TINY, feature_set=feature_set, dimensions=3)
    assert ordering_inputs(GRAPH, config).features.shape == (6, own + 3)
    assert (OrderingConfig().feature_set, OrderingConfig().dimensions) == ("paper", 20)  # C.5


def test_log_probabilities_are_those_of_the_priorities():
    policy = ordering_policy(TINY)
    pairs = oracle.plain_pairs(GRAPH)
    orders = list(oracle.all_orders(6, pairs))[:4]
    positions = np.stack([oracle.positions(order, 8) for order in orders])
    priority = np.asarray(jax.jit(policy.priorities)(params(), INPUTS))
    found = jax.jit(policy.log_prob)(params(), INPUTS, positions)
    plain = [oracle.log_probability(priority[:6].tolist(), order, pairs) for order in orders]
    np.testing.assert_allclose(found, plain, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("decoder", ["nar", "ar"])
def test_logits_of_steps_make_the_log_probability(decoder):
    """Step by step, all orders side by side; the op before the first is O or -1."""
    policy = ordering_policy(dataclasses.replace(TINY, decoder=decoder))
    random = random_params(policy.init, jax.random.key(0), INPUTS)
    pairs = oracle.plain_pairs(GRAPH)
    orders = list(oracle.all_orders(6, pairs))
    encoding, logits = policy.encode(random, INPUTS), jax.jit(policy.logits)
    total = np.zeros(len(orders))
    for step in range(6):
        ready = np.zeros((len(orders), 8), bool)
        for row, order in enumerate(orders):
            left = set(order[step:])
            ready[row, [op for op in left if all(a not in left for a, b in pairs if b == op)]] = 1
        before = [(order[step - 1], order[0]) if step else (8, 8) for order in orders]
        found = logits(encoding, ready, *np.array(before).T)
        if step == 0:
            np.testing.assert_array_equal(
                found, logits(encoding, ready, *np.full((2, len(orders)), -1))
            )
        assert (found[~ready] <= -1e30).all()
        ran = jax.nn.log_softmax(found)[np.arange(len(orders)), [order[step] for order in orders]]
        total += np.asarray(ran)
    positions = np.stack([oracle.positions(order, 8) for order in orders])
    expected = jax.jit(policy.log_prob)(random, INPUTS, positions)
    np.testing.assert_allclose(total, expected, rtol=1e-4, atol=1e-4)


def test_the_greedy_order_is_that_of_the_priorities():
    policy = ordering_policy(TINY)
    priority = np.asarray(jax.jit(policy.priorities)(params(), INPUTS))
    expected = oracle.greedy_order(priority[:6].tolist(), oracle.plain_pairs(GRAPH))
    found = jax.jit(policy.mode)(params(), INPUTS)
    np.testing.assert_array_equal(found, oracle.positions(expected, 8))


def test_samples_are_different_orders():
    sample = jax.jit(ordering_policy(TINY).sample, static_argnames="count")
    flat = jax.tree.map(np.zeros_like, params())  # all priorities 0
    found = np.asarray(sample(flat, jax.random.key(0), INPUTS, count=30))
    assert found.shape == (30, 8)
    assert (found[:, 6:] == 8).all()
    orders = {tuple(order) for order in np.argsort(found[:, :6], axis=1).tolist()}
    assert all(oracle.is_order(6, oracle.plain_pairs(GRAPH), order) for order in orders)
    assert len(orders) > 1


def test_signs_of_the_encoding_are_flipped_column_by_column():
    factors = []
    for seed in range(20):
        found = flip_signs(jax.random.key(seed), INPUTS, TINY.dimensions)
        jax.tree.map(np.testing.assert_array_equal, found.relations, INPUTS.relations)
        np.testing.assert_array_equal(found.features[:, :-2], INPUTS.features[:, :-2])
        factor = found.features[0, -2:] / INPUTS.features[0, -2:]
        np.testing.assert_array_equal(found.features[:, -2:], INPUTS.features[:, -2:] * factor)
        factors.append(tuple(factor.tolist()))
    assert set(factors) == {(a, b) for a in (-1.0, 1.0) for b in (-1.0, 1.0)}


def test_without_an_encoding_no_sign_is_flipped():
    inputs = ordering_inputs(chain(4), dataclasses.replace(TINY, dimensions=0))
    found = flip_signs(jax.random.key(1), inputs, 0)
    np.testing.assert_array_equal(found.features, inputs.features)

"""Distributions over orders against eq. 8 step by step: probabilities, gradients, samples."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from regal_jax.datasets.layered import layered_graph
from regal_jax.graphs.features.relations import relations
from regal_jax.policies.networks.topoformer import EncoderConfig
from regal_jax.policies.topological_order import sampler
from regal_jax.policies.topological_order.sampler import ALPHA, Priorities
from tests.oracles import ordering as oracle
from tests.oracles.ordering import graph_of
from tests.policies.cases import chain, random_params
from tests.strategies import computation_graphs

OPS, EDGES = 9, 40
"""Every graph here is padded to so many, so that all share compilations."""
MOST_ORDERS = 64
SEEDS = st.integers(0, 2**32 - 1)


def padded(graph):
    return relations(graph, OPS, EDGES)


def priorities_of(num_ops: int, seed: int, spread: float = 5.0) -> np.ndarray:
    """float32[OPS]; numbers in the padding, too, that must not matter."""
    numbers = np.random.default_rng(seed).normal(size=OPS) * spread
    numbers[num_ops:] = 50.0
    return numbers.astype(np.float32)


@jax.jit
def log_probs(priority, positions, related):
    """float32[N]."""
    one = functools.partial(sampler.log_prob, priority)
    ends = related.senders, related.receivers
    return jax.vmap(one, (0, None, None))(positions, *ends)


@jax.jit
def gradient(priority, position, related):
    return jax.grad(sampler.log_prob)(priority, position, related.senders, related.receivers)


def plain_log_prob(priority, order, pairs) -> float:
    return oracle.log_probability(priority[: len(order)].tolist(), order, pairs)


def some_positions(orders) -> np.ndarray:
    """int32[MOST_ORDERS, OPS]: of these orders, again and again."""
    found = [oracle.positions(order, OPS) for order in orders]
    return np.stack([found[index % len(found)] for index in range(MOST_ORDERS)])


def some_orders(graph, pairs, seed: int) -> list[oracle.Order]:
    """Greedy orders of random priorities."""
    rng = np.random.default_rng(seed)
    return [oracle.greedy_order(rng.normal(size=graph.num_ops), pairs) for _ in range(4)]


def random_pairs(num_ops: int, seed: int) -> list[tuple[int, int]]:
    """A quarter of the pairs of ops, in a random direction without cycles."""
    rng = np.random.default_rng(seed)
    label = rng.permutation(num_ops)
    upper = np.argwhere(np.triu(rng.random((num_ops, num_ops)) < 0.25, 1))
    return [(int(label[before]), int(label[after])) for before, after in upper]


@pytest.mark.parametrize("seed", range(6))
def test_the_probabilities_of_all_orders_sum_to_one(seed):
    graph = graph_of(5, random_pairs(5, seed))
    pairs, priority = oracle.plain_pairs(graph), priorities_of(5, seed, 1.5)
    orders = list(oracle.all_orders(5, pairs))
    found = np.concatenate(
        [
            log_probs(priority, some_positions(orders[begin : begin + MOST_ORDERS]), padded(graph))
            for begin in range(0, len(orders), MOST_ORDERS)
        ]
    )[: len(orders)]
    plain = [plain_log_prob(priority, order, pairs) for order in orders]
    np.testing.assert_allclose(found, plain, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.exp(found).sum(), 1.0, atol=1e-5)


@settings(max_examples=60)
@given(computation_graphs(OPS), SEEDS, st.sampled_from([0.0, 1.0, 5.0, 60.0, 300.0]))
def test_log_probabilities_are_sums_of_softmaxes(graph, seed, spread):
    """Far apart, too: 300 is beyond what exp can take in float32."""
    pairs, priority = oracle.plain_pairs(graph), priorities_of(graph.num_ops, seed, spread)
    orders = some_orders(graph, pairs, seed)
    found = log_probs(priority, some_positions(orders), padded(graph))[: len(orders)]
    plain = [plain_log_prob(priority, order, pairs) for order in orders]
    np.testing.assert_allclose(found, plain, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("far", [60.0, 300.0])
def test_the_improbable_is_exact(far):
    """Two free ops: the lower one first has log-probability -2 far; then the other is certain."""
    priority = np.array([far, -far] + [0.0] * (OPS - 2), np.float32)
    positions = some_positions([(1, 0), (0, 1)])
    found = log_probs(priority, positions, padded(graph_of(2, [])))
    assert found[:2].tolist() == [-2 * far, 0.0]
    slope = gradient(priority, positions[0], padded(graph_of(2, [])))
    np.testing.assert_allclose(slope[:2], [-1.0, 1.0], atol=1e-6)


@settings(max_examples=40)
@given(computation_graphs(OPS), SEEDS, st.sampled_from([0.0, 2.0, 60.0]))
def test_gradients_are_those_of_the_softmaxes(graph, seed, spread):
    """What ran, less the probabilities of what could have: sum over steps of 1[op] - softmax."""
    pairs, priority = oracle.plain_pairs(graph), priorities_of(graph.num_ops, seed, spread)
    order = some_orders(graph, pairs, seed)[0]
    allowed = oracle.choices(order, pairs)
    exact = np.where(allowed, priority[: graph.num_ops].astype(float), -np.inf)
    weight = np.exp(exact - exact.max(axis=1, keepdims=True))
    expected = 1.0 - (weight / weight.sum(axis=1, keepdims=True)).sum(axis=0)
    found = np.asarray(gradient(priority, oracle.positions(order, OPS), padded(graph)))
    np.testing.assert_allclose(found[: graph.num_ops], expected, atol=2e-5)
    assert not found[graph.num_ops :].any()


@pytest.mark.parametrize("num_ops", [1, 4, 5])
def test_padding_changes_nothing(num_ops):
    graph = graph_of(num_ops, random_pairs(num_ops, 3))
    pairs, priority = oracle.plain_pairs(graph), priorities_of(num_ops, 1)
    order = some_orders(graph, pairs, 2)[0]
    related = relations(graph)
    exact = jax.jit(sampler.log_prob)(
        priority[:num_ops], oracle.positions(order, num_ops), related.senders, related.receivers
    )
    found = log_probs(priority, some_positions([order]), padded(graph))
    np.testing.assert_allclose(found, np.full(MOST_ORDERS, exact), rtol=1e-6, atol=1e-6)


def test_two_thousand_ops():
    """A layered graph against float64; what is schedulable is kept as the order goes."""
    graph = layered_graph(0, 2000)
    related = relations(graph)
    rng = np.random.default_rng(0)
    priority = rng.normal(size=2000) * ALPHA
    order, expected = _walk(related, priority, rng)
    assert expected < -1000
    arguments = priority.astype(np.float32), oracle.positions(order, 2000)
    ends = related.senders, related.receivers
    found = jax.jit(sampler.log_prob)(*arguments, *ends)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def _walk(related, priority, rng) -> tuple[list[int], float]:
    """An order by the softmax of half of the priorities, and its log-probability by all of them."""
    missing = np.bincount(related.receivers, minlength=len(priority))
    ready, order, total = list(np.flatnonzero(missing == 0)), [], 0.0
    successors = [[] for _ in priority]
    for before, after in zip(related.senders.tolist(), related.receivers.tolist(), strict=True):
        successors[before].append(after)
    while ready:
        noise = rng.gumbel(size=len(ready))
        op = int(ready[int(np.argmax(priority[ready] / 2 + noise))])
        total += priority[op] - np.logaddexp.reduce(priority[ready])
        order.append(op)
        ready.remove(op)
        for after in successors[op]:
            missing[after] -= 1
            if missing[after] == 0:
                ready.append(after)
    return order, total


def test_an_op_is_schedulable_after_the_last_that_it_reads():
    """0 -> 2, 1 -> 2, 2 -> 4, 3 alone."""
    related = padded(graph_of(5, [(0, 2), (1, 2), (2, 4)]))
    position = jnp.asarray(oracle.positions((3, 1, 0, 2, 4), OPS))
    since = sampler.schedulable_since(position, related.senders, related.receivers)
    assert since[:5].tolist() == [0, 0, 3, 0, 4]


@jax.jit
def standardised(priority, real):
    return sampler.standardised(priority, real)


@jax.jit
def standardised_slope(priority, real):
    weights = jnp.arange(OPS, dtype=jnp.float32)
    return jax.grad(lambda p: sampler.standardised(p, real) @ weights)(priority)


@pytest.mark.parametrize("num_ops", [2, 6, OPS])
def test_standardised_priorities(num_ops):
    """Eq. 17: mean 0, deviation ALPHA, of the real ops; padding gets 0."""
    raw, real = priorities_of(num_ops, 4, 3.0) + 7.0, np.arange(OPS) < num_ops
    found = np.asarray(standardised(raw, real))
    np.testing.assert_allclose(found[real].mean(), 0.0, atol=1e-5)
    np.testing.assert_allclose(found[real].std(), ALPHA, rtol=1e-5)
    exact = raw[real].astype(float)
    np.testing.assert_allclose(
        found[real], 5 * (exact - exact.mean()) / exact.std(), rtol=1e-4, atol=1e-4
    )
    assert not found[~real].any()
    assert not np.asarray(standardised_slope(raw, real))[~real].any()


@pytest.mark.parametrize("num_ops", [0, 1, 6])
def test_equal_priorities_are_zeros_with_a_finite_gradient(num_ops):
    raw, real = np.full(OPS, 3.0, np.float32), np.arange(OPS) < num_ops
    assert not np.asarray(standardised(raw, real)).any()
    assert np.isfinite(standardised_slope(raw, real)).all()


TINY = EncoderConfig(layers=1, size=6, heads=1, head_size=3)


def test_priorities_are_standardised_ones_of_the_encoder():
    graph = graph_of(6, random_pairs(6, 0))
    features = np.random.default_rng(0).normal(size=(OPS, 4)).astype(np.float32)
    params = random_params(Priorities(TINY).init, jax.random.key(0), features, padded(graph))
    priorities = jax.jit(Priorities(TINY).apply)
    found = priorities(params, features, padded(graph))
    assert found.shape == (OPS,)
    np.testing.assert_allclose(found[:6].mean(), 0.0, atol=1e-4)
    np.testing.assert_allclose(found[:6].std(), ALPHA, rtol=1e-4)
    assert not found[6:].any()
    assert not priorities(params, features, padded(graph_of(1, []))).any()


@functools.partial(jax.jit, static_argnames=("greedy", "count"))
def sample(key, priority, related, *, greedy=False, count=4):
    one = functools.partial(sampler.sample_positions, greedy=greedy)
    return jax.vmap(one, (0, None, None))(jax.random.split(key, count), priority, related)


@settings(max_examples=40)
@given(computation_graphs(OPS), SEEDS)
def test_samples_are_orders(graph, seed):
    pairs = oracle.plain_pairs(graph)
    found = np.asarray(
        sample(jax.random.key(seed), priorities_of(graph.num_ops, seed), padded(graph))
    )
    assert (found[:, graph.num_ops :] == OPS).all()
    for position in found[:, : graph.num_ops]:
        assert oracle.is_order(graph.num_ops, pairs, np.argsort(position).tolist())
        assert sorted(position) == list(range(graph.num_ops))


@settings(max_examples=40)
@given(computation_graphs(OPS), SEEDS)
def test_greedy_orders_take_the_highest_and_of_equals_the_lowest(graph, seed):
    pairs = oracle.plain_pairs(graph)
    priority = np.random.default_rng(seed).integers(0, 4, OPS).astype(np.float32)
    found = sample(jax.random.key(0), priority, padded(graph), greedy=True, count=4)
    expected = oracle.greedy_order(priority[: graph.num_ops].tolist(), pairs)
    np.testing.assert_array_equal(found, some_positions([expected])[:4])


def test_samples_have_the_probabilities_of_their_orders():
    """Chi-square over all orders of 5 ops, with one key: the same numbers in every run."""
    graph = graph_of(5, [(3, 0), (3, 1), (0, 2), (4, 2)])
    pairs, priority = oracle.plain_pairs(graph), priorities_of(5, 6, 1.0)
    orders = list(oracle.all_orders(5, pairs))
    expected = np.exp([plain_log_prob(priority, one, pairs) for one in orders])
    count = 4000
    found = np.asarray(sample(jax.random.key(5), priority, padded(graph), count=count))
    drawn = [tuple(row) for row in np.argsort(found[:, :5], axis=1).tolist()]
    seen = np.array([drawn.count(order) for order in orders])
    assert seen.sum() == count
    statistic = ((seen - count * expected) ** 2 / (count * expected)).sum()
    assert statistic < chi2.isf(1e-4, len(orders) - 1)


def test_a_chain_has_one_order():
    assert (
        sample(jax.random.key(0), priorities_of(OPS, 0), padded(chain(OPS))).tolist()
        == [list(range(OPS))] * 4
    )

"""The autoregressive decoder against a plain one in numpy, and by what a distribution must obey."""

import dataclasses
import functools

import flax.traverse_util
import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from regal_jax.datasets.layered import layered_graph, layered_graphs
from regal_jax.errors import OptionError
from regal_jax.graphs.features.relations import Relations
from regal_jax.policies.networks.topoformer import Encoder
from regal_jax.policies.topological_order import autoregressive
from regal_jax.policies.topological_order.policy import (
    OrderingConfig,
    OrderingInputs,
    ordering_policy,
)
from regal_jax.training.checkpoints import load_policy
from regal_jax.training.ordering_inputs import ordering_inputs
from regal_jax.training.topological_order import OrderingTraining, train_ordering
from tests.policies.cases import random_graph, random_params
from tests.strategies import computation_graphs

CONFIG = OrderingConfig(
    decoder="ar",
    encoder="topoformer_edges",
    layers=1,
    size=8,
    heads=1,
    head_size=4,
    dimensions=2,
    feature_set="extended",
)
POLICY = ordering_policy(CONFIG)
OPS, PAIRS, ORDERS, SAMPLES = 7, 15, 720, 4000
"""One padded shape for all graphs of up to 6 ops, their most orders, and samples."""

LOG_PROB = jax.jit(POLICY.log_prob)
SAMPLE = jax.jit(functools.partial(POLICY.sample, count=SAMPLES))
GREEDY = jax.jit(POLICY.mode)
ENCODE = jax.jit(Encoder(CONFIG).apply)


def padded(graph) -> OrderingInputs:
    return ordering_inputs(graph, CONFIG, OPS, PAIRS)


@pytest.fixture(scope="module")
def params():
    inputs = padded(random_graph(0, 6))
    return random_params(POLICY.init, jax.random.key(0), inputs, scale=0.25)


def schedulable(num_ops: int, pairs: set, order: tuple) -> list[int]:
    return [
        op
        for op in range(num_ops)
        if op not in order and all(a in order for a, b in pairs if b == op)
    ]


def orders_of(graph) -> list[tuple]:
    """All topological orders, in lexical order."""
    pairs = set(map(tuple, graph.op_pairs.tolist()))
    orders = [()]
    for _ in range(graph.num_ops):
        orders = [(*o, op) for o in orders for op in schedulable(graph.num_ops, pairs, o)]
    return orders


def positions_of(orders, num_ops: int = OPS) -> np.ndarray:
    found = np.full((len(orders), num_ops), num_ops, np.int32)
    for row, order in zip(found, orders, strict=True):
        row[list(order)] = range(len(order))
    return found


def log_probs_of(params, graph, orders) -> np.ndarray:
    """float64[len(orders)], in a call of always one shape."""
    rows = positions_of([*orders, *[orders[0]] * (ORDERS - len(orders))])
    return np.asarray(LOG_PROB(params, padded(graph), rows), np.float64)[: len(orders)]


def softmax(scores):
    weight = np.exp(scores - np.max(scores))
    return weight / weight.sum()


class PlainDecoder:
    """Kool et al. 3.2 by the letter, over schedulable ops alone and without padding."""

    def __init__(self, params, graph):
        tree = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params["params"])
        encoder, inputs = {"params": params["params"]["encoder"]}, padded(graph)
        state = ENCODE(encoder, inputs.features, inputs.relations)[: graph.num_ops]
        state = np.asarray(state, np.float64)
        centred = state - state.mean(axis=1, keepdims=True)
        norm = tree["norm"]
        deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-6)
        self.state = centred / deviation * norm["scale"] + norm["bias"]
        self.missing = tree["missing"]
        self.kernel = {name: leaf["kernel"] for name, leaf in tree.items() if "kernel" in leaf}

    def next_op(self, order: tuple, ready: list[int]) -> np.ndarray:
        """The probability of each ready op."""
        kernel, state = self.kernel, self.state
        last, first = (state[order[-1]], state[order[0]]) if order else self.missing
        context = np.concatenate([state.mean(axis=0), last, first])
        joined = np.concatenate([kernel["graph"], kernel["last"], kernel["first"]])
        heads = []
        for head in range(autoregressive.HEADS):
            query = context @ joined[:, head]
            keys, values = (
                state[ready] @ kernel["key"][:, head],
                state[ready] @ kernel["value"][:, head],
            )
            heads.append(softmax(keys @ query / np.sqrt(len(query))) @ values)
        out = kernel["glimpse"].reshape(len(state[0]), -1).T
        glimpse = np.concatenate(heads) @ out
        scores = state[ready] @ kernel["pointer"] @ glimpse / np.sqrt(len(glimpse))
        return softmax(10.0 * np.tanh(scores))

    def walk(self, graph, choose) -> tuple[tuple, float]:
        """An order and its log-probability; ``choose`` takes (ops, probabilities, step)."""
        pairs = set(map(tuple, graph.op_pairs.tolist()))
        order, total = (), 0.0
        for step in range(graph.num_ops):
            ready = schedulable(graph.num_ops, pairs, order)
            chances = self.next_op(order, ready)
            index = choose(ready, chances, step)
            total += np.log(chances[index])
            order = (*order, ready[index])
        return order, total


@settings(max_examples=15)
@given(computation_graphs(max_ops=6))
def test_probabilities_sum_to_one(params, graph):
    found = log_probs_of(params, graph, orders_of(graph))
    assert np.exp(found).sum() == pytest.approx(1.0, abs=1e-4)


@settings(max_examples=6)
@given(computation_graphs(max_ops=6), st.data())
def test_plain_decoder(params, graph, data):
    """The probability of an order, and the greedy order."""
    orders = orders_of(graph)
    given_order = data.draw(st.sampled_from(orders))
    plain = PlainDecoder(params, graph)
    _, expected = plain.walk(graph, lambda ready, _, step: ready.index(given_order[step]))
    assert log_probs_of(params, graph, [given_order])[0] == pytest.approx(expected, abs=1e-3)
    greedy, chance = plain.walk(graph, lambda _, chances, __: np.argmax(chances))
    found = np.asarray(GREEDY(params, padded(graph)))
    assert (found[graph.num_ops :] == OPS).all()
    order = tuple(np.argsort(found)[: graph.num_ops].tolist())
    assert order == greedy or log_probs_of(params, graph, [order])[0] >= chance - 1e-3


def test_greedy_takes_the_most_likely_op(params):
    for seed in range(4):
        graph = random_graph(seed, 6)
        expected, _ = PlainDecoder(params, graph).walk(graph, lambda _, c, __: np.argmax(c))
        found = GREEDY(params, padded(graph))
        np.testing.assert_array_equal(found, positions_of([expected])[0])


def test_ties_go_to_the_lowest_op(params):
    alike = ordering_inputs(layered_graphs(0, 1, 6)[0], CONFIG, OPS, PAIRS)
    nothing = jax.tree.map(jnp.zeros_like, params)
    found = np.asarray(GREEDY(nothing, alike))
    np.testing.assert_array_equal(found, [0, 1, 2, 3, 4, 5, OPS])


@settings(max_examples=20)
@given(computation_graphs(max_ops=6), st.integers(0, 2**31 - 1))
def test_samples_are_orders(params, graph, seed):
    positions = np.asarray(SAMPLE(params, jax.random.key(seed), padded(graph)))
    real, padding = positions[:, : graph.num_ops], positions[:, graph.num_ops :]
    assert positions.dtype == np.int32
    np.testing.assert_array_equal(np.sort(real, axis=1), [range(graph.num_ops)] * SAMPLES)
    assert (padding == OPS).all()
    before, after = graph.op_pairs.T
    assert (real[:, before] < real[:, after]).all()


def test_samples_have_their_probabilities(params):
    graph = layered_graph(1, 6, width_factor=0.5)
    orders = orders_of(graph)
    expected = np.exp(log_probs_of(params, graph, orders)) * SAMPLES
    assert len(orders) == 20
    assert min(expected) > 5
    drawn = np.asarray(SAMPLE(params, jax.random.key(0), padded(graph)))
    index = {row.tobytes(): number for number, row in enumerate(positions_of(orders))}
    seen = np.bincount([index[row.tobytes()] for row in drawn], minlength=len(orders))
    assert stats.chisquare(seen, expected * (SAMPLES / expected.sum())).pvalue > 1e-3
    assert stats.chisquare(seen).pvalue < 1e-9  # so that a uniform sampler would have failed


def test_padding_changes_nothing(params):
    graph = random_graph(5, 6)
    orders = orders_of(graph)[:20]
    bare = ordering_inputs(graph, CONFIG)
    found = jax.jit(POLICY.log_prob)(params, bare, positions_of(orders, 6))
    np.testing.assert_allclose(found, log_probs_of(params, graph, orders), atol=1e-5, rtol=1e-5)


def test_relabelled_ops(params):
    """Ops, padding among them, may stand anywhere; the numbers of pairs don't matter either."""
    graph = layered_graphs(2, 1, 6)[0]
    inputs, rng = padded(graph), np.random.default_rng(0)
    old, pair = rng.permutation(OPS), rng.permutation(PAIRS)  # new op i is old op old[i]
    new = np.append(np.argsort(old), OPS).astype(np.int32)
    related = inputs.relations
    moved = OrderingInputs(
        features=inputs.features[old],
        relations=Relations(
            code=related.code[np.ix_(old, old)],
            senders=new[related.senders[pair]],
            receivers=new[related.receivers[pair]],
            reduced=related.reduced[pair],
            real=related.real[old],
        ),
    )
    rows = positions_of((orders_of(graph) * ORDERS)[:ORDERS])
    expected = LOG_PROB(params, inputs, rows)
    np.testing.assert_allclose(LOG_PROB(params, moved, rows[:, old]), expected, atol=1e-4)
    greedy = np.asarray(GREEDY(params, inputs))
    np.testing.assert_array_equal(GREEDY(params, moved), greedy[old])


def test_gradients_in_blocks(params, monkeypatch):
    """Blocks may have any size; gradients reach every parameter, and are those of differences."""
    graph = random_graph(0, 6)
    inputs, orders = padded(graph), orders_of(graph)[:2]
    monkeypatch.setattr(autoregressive, "BLOCK", 5)
    total = lambda params: jnp.sum(POLICY.log_prob(params, inputs, positions_of(orders)))  # noqa: E731
    value, gradient = jax.jit(jax.value_and_grad(total))(params)
    assert value == pytest.approx(log_probs_of(params, graph, orders).sum(), abs=1e-4)
    squared = 0.0
    for name, leaf in flax.traverse_util.flatten_dict(gradient).items():
        assert np.isfinite(leaf).all(), name
        assert np.abs(leaf).max() > 1e-6, name
        squared += np.sum(np.square(leaf, dtype=np.float64))

    def along(step):
        moved = jax.tree.map(lambda leaf, slope: leaf + step * slope, params, gradient)
        return log_probs_of(moved, graph, orders).sum()

    step = 1e-2 / np.sqrt(squared)
    assert (along(step) - along(-step)) / (2 * step) == pytest.approx(squared, rel=2e-2)


def largest_array(jaxpr) -> int:
    """Numbers in the largest array that a program makes, loops included."""
    sizes = [variable.aval.size for equation in jaxpr.eqns for variable in equation.outvars]
    inner = [
        largest_array(part)
        for equation in jaxpr.eqns
        for part in jax.extend.core.jaxprs_in_params(equation.params)
    ]
    return max([*sizes, *inner], default=0)


def test_memory_is_not_quadratic_in_ops():
    """Of the gradient: nothing is larger than what a block of steps and all ops have in common."""
    num_ops, count, size = 3000, 2, 8
    leaf, longer = jnp.zeros((num_ops, 8, 1)), jnp.zeros((num_ops + 1, 8, 1))
    seen = autoregressive.Projections(
        graph=leaf[0], last=longer, first=longer, key=leaf, value=leaf, pointer=leaf
    )
    ends = jnp.zeros(num_ops, jnp.int32)
    rows = jnp.zeros((count, num_ops), jnp.int32)
    total = lambda seen: jnp.sum(autoregressive.log_prob(seen, rows, ends, ends))  # noqa: E731
    program = jax.make_jaxpr(jax.grad(total))(seen)
    assert largest_array(program.jaxpr) <= autoregressive.BLOCK * num_ops * size


def test_there_are_no_priorities(params):
    with pytest.raises(OptionError, match="has no priorities"):
        POLICY.priorities(params, padded(random_graph(0, 6)))


def test_training(tmp_path):
    policy = dataclasses.replace(CONFIG, encoder="mlp")
    config = OrderingTraining(
        batch_size=2, epoch_graphs=4, epochs=2, baseline="leave_one_out", samples=2
    )
    inputs, seen = padded(random_graph(0, 6)), []
    best = train_ordering(
        lambda epoch: layered_graphs(epoch, 4, 8),
        layered_graphs(100, 2, 8),
        policy=policy,
        config=config,
        directory=tmp_path,
        initial_params=random_params(ordering_policy(policy).init, jax.random.key(0), inputs),
        on_step=lambda step, metrics: seen.append((metrics["cost"], metrics["gradient_norm"])),
    )
    assert len(seen) == 4
    assert np.isfinite(seen).all()
    assert max(norm for _, norm in seen) > 0
    assert load_policy(best, OrderingConfig)[1] == policy

"""Beams of decoders that see the ops before: those of a plain beam search, exact if wide enough."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.orders import dynamic_programming
from regal_jax.search.orders.beam import beam_search
from regal_jax.search.orders.dynamic_programming import order_peak
from tests.oracles import beam_search as oracle
from tests.oracles.exhaustive_search import least_peak_memory
from tests.oracles.schedule_cost import plain
from tests.policies.cases import random_graph
from tests.strategies import computation_graphs

SEEDS = st.integers(0, 2**32 - 1)


def decoder(num_ops: int, seed: int):
    """Random logits that depend on all that a decoder sees; NaN where they must not count."""
    rng = np.random.default_rng(seed)
    of_op, of_many = rng.normal(size=(2, num_ops))
    after, since = rng.normal(size=(2, num_ops + 1, num_ops))  # the last row: of nothing yet

    def logits(ready, last, first):
        many = ready.sum(axis=1, keepdims=True) * of_many
        return np.where(ready, of_op + many + after[last] + since[first], np.nan)

    return logits


def scores_of(graph: ComputationGraph, logits):
    """The same for one partial order, as the plain beam search wants it."""

    def scores(ops, choices):
        ready = np.isin(np.arange(graph.num_ops), choices)[None]
        last, first = (ops[-1], ops[0]) if ops else (-1, -1)
        return logits(ready, np.array([last]), np.array([first]))[0, choices]

    return scores


@given(computation_graphs(9), st.integers(1, 12), SEEDS)
@settings(max_examples=150, deadline=None)
def test_beams_are_those_of_a_plain_beam_search(graph, width, seed):
    logits = decoder(graph.num_ops, seed)
    expected, tied = oracle.beam_search(plain(graph), width, scores_of(graph, logits))
    result = beam_search(graph, logits, width=width)
    assert result.peak == order_peak(graph, result.order)
    if not tied:
        assert result.peak == expected.peak
        assert result.order.tolist() == list(expected.ops)


@given(computation_graphs(7), SEEDS)
@settings(max_examples=60, deadline=None)
def test_a_beam_of_all_sets_finds_the_least_peak(graph, seed):
    result = beam_search(graph, decoder(graph.num_ops, seed), width=2**7)
    assert result.is_optimal
    assert result.peak == order_peak(graph, result.order) == least_peak_memory(plain(graph), 1)


@given(computation_graphs(9), st.integers(1, 6), SEEDS)
@settings(max_examples=60, deadline=None)
def test_what_is_said_to_be_optimal_is(graph, width, seed):
    least = dynamic_programming.beam_search(graph, width=None).peak
    result = beam_search(graph, decoder(graph.num_ops, seed), width=width)
    assert result.peak == least or not result.is_optimal


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("width", [1, 7, 60])
def test_priorities_in_one_pass_are_a_special_case(seed, width):
    graph = random_graph(seed, 80)
    priorities = np.random.default_rng(seed).normal(size=80)
    expected = dynamic_programming.beam_search(graph, width=width, priorities=priorities)
    found = beam_search(graph, lambda ready, *_: np.where(ready, priorities, -1e30), width=width)
    np.testing.assert_array_equal(found.order, expected.order)
    assert found[1:] == expected[1:]


@given(computation_graphs(12), SEEDS)
@settings(max_examples=60, deadline=None)
def test_a_beam_of_one_takes_the_most_likely_op_and_then_the_lowest(graph, seed):
    logits = decoder(graph.num_ops, seed)
    rounded = lambda *seen: np.round(logits(*seen))  # noqa: E731
    scores, ops = scores_of(graph, rounded), ()
    while len(ops) < graph.num_ops:
        choices = oracle.schedulable(plain(graph), ops)
        ops = (*ops, choices[int(np.argmax(scores(ops, choices)))])
    for options in ({"width": 1}, {"width": 9, "deadline": -math.inf}):
        assert beam_search(graph, rounded, **options).order.tolist() == list(ops)


@pytest.mark.parametrize("large", [10, 2**53])
def test_the_lower_peak_stays_even_if_it_is_less_probable(large):
    """Op 1 needs a byte more while it runs: better before op 0 has made much. No float could tell
    the two peaks apart if that and the input are 2**53 bytes."""
    graph = ComputationGraph.create(
        num_ops=3,
        producer=[0, 1, -1],
        size=[large, 1, large],
        consumers=[[2], [2], [2]],
        workspace=[0, 1, 0],
    )
    prefers_0 = lambda ready, *_: np.where(ready, [5.0, 0.0, 0.0], 0.0)  # noqa: E731
    narrow, wide = (beam_search(graph, prefers_0, width=width) for width in (1, 2))
    assert (narrow.order.tolist(), narrow.is_optimal) == ([0, 1, 2], False)
    assert (wide.order.tolist(), wide.is_optimal) == ([1, 0, 2], True)
    assert (narrow.peak, wide.peak) == (2 * large + 2, 2 * large + 1)


@pytest.mark.parametrize("width", [1, 2, 8])
def test_ties_go_to_the_better_parent_and_the_lower_op(width):
    graph = ComputationGraph.create(
        num_ops=4, producer=range(4), size=[1, 1, 1, 1], consumers=[[], [], [], []]
    )
    alike = beam_search(graph, lambda ready, *_: np.zeros(ready.shape), width=width)
    assert alike.order.tolist() == [0, 1, 2, 3]


def test_a_graph_without_ops():
    graph = ComputationGraph.create(num_ops=0, producer=[-1], size=[7], consumers=[[]])
    result = beam_search(graph, decoder(0, 0), width=3)
    assert (result.order.tolist(), result.peak, result.is_optimal) == ([], 0, True)


def test_the_width_must_be_positive():
    with pytest.raises(OptionError, match="width must be at least 1"):
        beam_search(random_graph(0, 3), decoder(3, 0), width=0)

"""The compiled sampler of orders: valid, greedy where asked, else with the odds of eq. 8."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from regal_jax.datasets.layered import layered_graph
from regal_jax.errors import OptionError
from regal_jax.graphs.features.relations import relations
from regal_jax.search.orders import sampling
from regal_jax.search.orders.sampling import greedy_positions, op_successors, sampled_positions
from tests.oracles import ordering as oracle
from tests.oracles.ordering import graph_of
from tests.strategies import computation_graphs

SEEDS = st.integers(0, 2**32 - 1)
SAMPLES = 20_000


def drawn(graph, priorities, seed: int, samples: int = 4) -> np.ndarray:
    """int32[samples, O]: positions, of uniform numbers that are the same in every run."""
    uniforms = np.random.default_rng(seed).random((samples, graph.num_ops))
    return sampled_positions(op_successors(graph), priorities, uniforms)


def assert_orders(graph, positions) -> None:
    assert positions.dtype == np.int32
    assert positions.shape[1:] == (graph.num_ops,)
    np.testing.assert_array_equal(
        np.sort(positions, axis=1), np.tile(np.arange(graph.num_ops), (len(positions), 1))
    )
    before, after = np.array(sorted(oracle.plain_pairs(graph)), int).reshape(-1, 2).T
    assert (positions[:, before] < positions[:, after]).all()


SHAPES = {
    "one": graph_of(1, []),
    "apart": graph_of(5, []),
    "star out": graph_of(6, [(3, op) for op in (0, 1, 2, 4, 5)]),
    "star in": graph_of(6, [(op, 3) for op in (0, 1, 2, 4, 5)]),
    "chain": graph_of(6, [(op + 1, op) for op in range(5)]),
    "two chains": graph_of(6, [(0, 1), (1, 2), (5, 4), (4, 3)]),
}


@given(computation_graphs(), SEEDS)
def test_samples_are_orders(graph, seed):
    assert_orders(graph, drawn(graph, np.random.default_rng(seed).normal(size=graph.num_ops), seed))


@pytest.mark.parametrize("shape", SHAPES)
def test_orders_of_simple_shapes(shape):
    graph = SHAPES[shape]
    priorities = np.arange(graph.num_ops)
    assert_orders(graph, drawn(graph, priorities, 0))
    greedy = greedy_positions(op_successors(graph), priorities)
    expected = oracle.greedy_order(priorities.tolist(), oracle.plain_pairs(graph))
    assert sampling.order_of(greedy).tolist() == list(expected)


def test_two_thousand_ops():
    graph = layered_graph(0, 2000)
    priorities = np.random.default_rng(0).normal(size=2000) * 5
    assert_orders(graph, drawn(graph, priorities, 0))
    assert_orders(graph, greedy_positions(op_successors(graph), priorities)[None])


@given(computation_graphs(), SEEDS)
def test_greedy_orders_take_the_highest_and_of_equals_the_lowest(graph, seed):
    priorities = np.random.default_rng(seed).integers(0, 4, graph.num_ops)
    found = greedy_positions(op_successors(graph), priorities)
    expected = oracle.greedy_order(priorities.tolist(), oracle.plain_pairs(graph))
    np.testing.assert_array_equal(found, oracle.positions(expected, graph.num_ops))


def test_greedy_orders_of_far_priorities():
    """No exponent is taken."""
    found = greedy_positions(op_successors(graph_of(3, [])), np.array([-1e300, 1e300, 0.0]))
    assert found.tolist() == [2, 0, 1]


def chi_square(graph, priorities, positions) -> tuple[float, int]:
    """(the statistic over all orders, degrees of freedom)."""
    pairs = oracle.plain_pairs(graph)
    orders = list(oracle.all_orders(graph.num_ops, pairs))
    expected = len(positions) * np.exp(
        [oracle.log_probability(priorities, order, pairs) for order in orders]
    )
    found, counts = np.unique(np.argsort(positions, axis=1), axis=0, return_counts=True)
    seen = dict(zip(map(tuple, found.tolist()), counts.tolist(), strict=True))
    seen = np.array([seen.get(order, 0) for order in orders])
    assert seen.sum() == len(positions)
    return float(((seen - expected) ** 2 / expected).sum()), len(orders) - 1


@pytest.mark.parametrize(
    ("pairs", "priorities"),
    [
        ([], [0.0, 0.5, -1.0, 1.0]),
        ([(3, 0), (3, 1), (0, 2), (4, 2)], [0.3, -0.5, 1.0, -1.0, 0.0]),
        ([(0, 1), (1, 2), (4, 3)], [2.0, -1.0, 0.0, 1.0, -1.0]),
        ([(0, 3), (1, 3), (2, 4)], [1.0, 0.0, -1.0, 0.5, 0.0]),
    ],
)
def test_samples_have_the_probabilities_of_their_orders(pairs, priorities):
    graph = graph_of(len(priorities), pairs)
    statistic, freedom = chi_square(graph, priorities, drawn(graph, priorities, 1, SAMPLES))
    assert statistic < chi2.isf(1e-4, freedom)


def test_priorities_are_relative():
    graph = SHAPES["two chains"]
    priorities = np.random.default_rng(0).normal(size=6)
    for shift in (-1e4, 1e4):
        shifted = drawn(graph, priorities + shift, 3, 200)
        np.testing.assert_array_equal(shifted, drawn(graph, priorities, 3, 200))


@pytest.mark.parametrize("far", [30.0, 40.0, 60.0, 300.0, 1e5])
def test_what_comes_after_an_improbable_op_is_still_random(far):
    """0 -> 1, 0 -> 2 with op 0 far below: ops 1 and 2 are equally likely."""
    graph, priorities = graph_of(3, [(0, 1), (0, 2)]), [-far, 0.0, 0.0]
    statistic, freedom = chi_square(graph, priorities, drawn(graph, priorities, 2, SAMPLES))
    assert statistic < chi2.isf(1e-4, freedom)


@pytest.mark.parametrize("far", [30.0, 60.0])
def test_what_comes_beside_an_improbable_op_is_still_random(far):
    """0 -> 2, 0 -> 3 and op 1, with 0 and 1 far below: half of the time ops 2 and 3 come second and
    third, and each of them first half of the time."""
    graph, priorities = graph_of(4, [(0, 2), (0, 3)]), [-far, -far, 0.0, 0.0]
    drawn_ops = np.argsort(drawn(graph, priorities, 2, SAMPLES), axis=1)
    followed = drawn_ops[drawn_ops[:, 0] == 0]
    assert abs(len(followed) - SAMPLES / 2) < 5 * np.sqrt(SAMPLES / 4)
    assert abs((followed[:, 1] == 2).sum() - len(followed) / 2) < 5 * np.sqrt(len(followed) / 4)


def test_far_priorities_decide():
    graph, priorities = graph_of(3, []), [300.0, -300.0, 0.0]
    assert (drawn(graph, priorities, 0, 50) == [0, 2, 1]).all()


@pytest.mark.parametrize("uniforms", [False, True])
def test_batches_are_the_orders_of_each_graph(uniforms):
    graphs = [SHAPES["two chains"], SHAPES["one"], SHAPES["star in"], SHAPES["apart"]]
    related = [relations(graph, 8, 10) for graph in graphs]
    stacked = type(related[0])(
        **{name: np.stack([one[name] for one in related]) for name in related[0]}
    )
    rng = np.random.default_rng(0)
    priorities = rng.normal(size=(4, 8))
    waits = rng.random((4, 3, 8)) if uniforms else None
    found = sampling.batch_positions(stacked, priorities, waits)
    assert found.shape == (4, 3 if uniforms else 1, 8)
    for row, graph in enumerate(graphs):
        count, successors = graph.num_ops, op_successors(graph)
        assert (found[row, :, count:] == 8).all()
        expected = (
            sampled_positions(successors, priorities[row, :count], waits[row, :, :count])
            if uniforms
            else greedy_positions(successors, priorities[row, :count])[None]
        )
        np.testing.assert_array_equal(found[row, :, :count], expected)


def test_order_of_positions():
    found = sampling.order_of(np.array([2, 0, 1], np.int32))
    assert (found.tolist(), found.dtype) == ([1, 2, 0], np.int32)


@pytest.mark.parametrize(
    "priorities", [[0.0, np.nan], [np.inf, 0.0], [0.0], [0.0] * 3, [[0.0, 0.0]]]
)
def test_priorities_that_are_no_numbers_one_each(priorities):
    successors = op_successors(graph_of(2, [(0, 1)]))
    with pytest.raises(OptionError, match="priorities must be 2 finite numbers"):
        greedy_positions(successors, priorities)
    with pytest.raises(OptionError, match="priorities must be 2 finite numbers"):
        sampled_positions(successors, priorities, np.ones((1, 2)))


@pytest.mark.parametrize("shape", [(2,), (1, 3), (1, 1, 2)])
def test_uniforms_of_another_shape(shape):
    with pytest.raises(OptionError, match=r"uniforms must be float\[S, 2\]"):
        sampled_positions(op_successors(graph_of(2, [])), [0.0, 0.0], np.ones(shape))

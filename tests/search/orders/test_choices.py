"""Orders made choice by choice: choices and what is known of them are those of the definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.datasets.layered import layered_graph
from regal_jax.environments.choosing.kernel import MOST
from regal_jax.environments.ordering.kernel import NAMES, PROGRAM
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.orders import dynamic_programming
from regal_jax.search.orders.choices import NEXT_OP, ORDERS
from tests.oracles.exhaustive_search import least_peak_memory
from tests.oracles.next_op import Orderer
from tests.oracles.schedule_cost import plain
from tests.policies.cases import random_graph
from tests.strategies import computation_graphs

EVEN = NEXT_OP.linear({})


def seeds(count):
    return np.arange(count, dtype=np.uint64)


@given(computation_graphs(max_ops=9), st.integers(0, 50))
def test_choices_are_those_of_the_definition(graph, seed):
    given_orders = {name: order(graph, 0).tolist() for name, order in ORDERS.items()}
    columns, orderer = NEXT_OP.columns(graph), Orderer(plain(graph), given_orders)
    orders, peaks = NEXT_OP.drawn(columns, EVEN, np.array([seed], np.uint64), 1.0)
    found, at = NEXT_OP.choices(columns, orders[0]), 0
    for op in orders[0].tolist():
        ready, forced = orderer.ready(), orderer.forced()
        assert op in ready if forced is None else op == forced
        if forced is None and len(ready) > 1:
            assert found.counts[at] == len(ready)
            rows = {name: found.rows[at, : len(ready), i] for i, name in enumerate(NAMES)}
            expected = orderer.row(op)
            assert expected.keys() == set(NAMES)
            for name, value in expected.items():
                own = rows[name][found.chosen[at]]
                choice = value if isinstance(value, set) else {value}
                assert any(own == pytest.approx(one, rel=1e-5, abs=1e-6) for one in choice), name
            assert not found.rows[at, len(ready) :].any()
            at += 1
        orderer.run(op)
    assert at == len(found.counts)
    assert peaks[0] == orderer.peak


def test_places_are_features_in_the_kernels_order():
    graph = layered_graph(0, 50)
    places = NEXT_OP.columns(graph).places
    assert tuple(ORDERS) == NAMES[PROGRAM : PROGRAM + len(places)]
    for own, order in zip(places, ORDERS.values(), strict=True):
        np.testing.assert_array_equal(own[order(graph, 0)], np.arange(50))


@pytest.mark.parametrize("seed", range(6))
def test_the_best_of_all_orders_can_be_drawn(seed):
    graph = random_graph(seed, 7)
    drawn = NEXT_OP.drawn(NEXT_OP.columns(graph), EVEN, seeds(500), 1.0)[1]
    assert drawn.min() == least_peak_memory(plain(graph), 1)


@given(computation_graphs(max_ops=10), st.integers(0, 50))
def test_following_an_order_makes_one_that_is_no_worse(graph, seed):
    """Ops that cost nothing run before their turn."""
    columns = NEXT_OP.columns(graph)
    order = np.random.default_rng(seed).permutation(graph.num_ops)
    order = dynamic_programming.beam_search(graph, width=1, priorities=order.astype(float)).order
    orderer, rank = Orderer(plain(graph)), np.argsort(order)
    while ready := orderer.ready():
        forced = orderer.forced()
        orderer.run(min(ready, key=lambda op: rank[op]) if forced is None else forced)
    assert orderer.peak <= dynamic_programming.order_peak(graph, order)
    assert len(NEXT_OP.choices(columns, order).counts) <= graph.num_ops


def test_of_many_ready_ops_those_of_least_growth_are_looked_at():
    count = MOST + 40
    size = np.random.default_rng(0).permutation(count) + 1
    graph = ComputationGraph.create(
        num_ops=count + 1,
        producer=range(count),
        size=size,
        consumers=[[count]] * count,
    )
    found = NEXT_OP.choices(NEXT_OP.columns(graph), np.arange(count + 1))
    assert found.counts[0] == MOST
    growth = found.rows[0, :, NAMES.index("growth")]
    np.testing.assert_allclose(
        growth, np.arcsinh(np.arange(1, MOST + 1) * (count + 1) / size.sum()), rtol=1e-5
    )


def test_samples_differ_and_do_not_depend_on_each_other():
    columns = NEXT_OP.columns(layered_graph(3, 200))
    orders, peaks = NEXT_OP.drawn(columns, EVEN, seeds(20), 1.0)
    assert np.all(np.sort(orders, axis=1) == np.arange(200))
    alone = NEXT_OP.drawn(columns, EVEN, seeds(20)[7:8], 1.0)
    np.testing.assert_array_equal(alone[0][0], orders[7])
    assert len(np.unique(peaks)) > 5
    assert np.all(peaks >= NEXT_OP.bound(layered_graph(3, 200)))


def test_graphs_without_ops_or_choices():
    for num_ops in (0, 1):
        graph = ComputationGraph.create(num_ops=num_ops, producer=[], size=[], consumers=[])
        columns = NEXT_OP.columns(graph)
        orders, peaks = NEXT_OP.drawn(columns, EVEN, seeds(2), 1.0)
        assert orders.tolist() == [list(range(num_ops))] * 2
        assert peaks.tolist() == [0, 0]
        assert len(NEXT_OP.choices(columns, orders[0]).counts) == 0

"""Orders by nested cuts: valid, never worse, optimal where a cut shows the way."""

import numpy as np
import pytest
from hypothesis import given, settings

from regal_jax.environments.placement import min_cut
from regal_jax.search.orders import nested_cuts
from tests.environments.placement.test_min_cut import least_peak
from tests.environments.placement.test_set_bound import branches
from tests.policies.cases import random_graph
from tests.strategies import computation_graphs


def improved(graph, order=None, **limits):
    start = graph.topological_order if order is None else order
    return nested_cuts.improve(graph, start, **({"lower_bound": 0, "most_flows": 10**6} | limits))


@settings(max_examples=200, deadline=None)
@given(computation_graphs(max_ops=6))
def test_orders_are_valid_and_between_the_optimum_and_the_start(graph):
    found = improved(graph)
    position = np.argsort(found.order)
    assert sorted(found.order.tolist()) == list(range(graph.num_ops))
    assert all(position[before] < position[after] for before, _, after in graph.edges.tolist())
    peaks = [
        int(min_cut.step_bytes(graph, order).max(initial=0))
        for order in (found.order, graph.topological_order)
    ]
    assert least_peak(graph) <= found.peak == peaks[0] <= peaks[1]


def test_branches_run_one_after_the_other():
    """Breadth first, all branches are in memory together."""
    graph = branches(6)
    breadth = np.array([0, *range(1, 13, 2), *range(2, 14, 2), 13])
    assert min_cut.step_bytes(graph, breadth).max() == 600 + 10
    assert improved(graph, breadth).peak == 100 + 10 * 6


@pytest.mark.parametrize("seed", range(4))
def test_same_seed_same_order_and_limits_hold(seed):
    graph = random_graph(seed, 60)
    found = improved(graph, seed=seed)
    again = improved(graph, seed=seed)
    assert np.array_equal(found.order, again.order)
    assert improved(graph, lower_bound=10**12).flows == 0
    assert improved(graph, most_flows=0).flows == 0
    assert improved(graph, stops=lambda: True).peak >= found.peak

"""``exact`` and what ``auto`` makes of it: optimal, and says so; on a budget, no worse."""

import numpy as np
import pytest
from hypothesis import given, settings

import regal_jax as rj
from regal_jax.datasets.layered import layered_graph
from tests.oracles.exhaustive_search import least_peak_memory
from tests.oracles.schedule_cost import plain
from tests.policies.cases import random_graph
from tests.strategies import computation_graphs

METHODS = ["exact", "auto"]


def optimize(graph, method="exact", **options):
    return rj.optimize(graph, **{"num_devices": 1, "method": method} | options)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=25)
@given(computation_graphs(max_ops=6))
def test_equals_the_best_of_all_orders(method, graph):
    found = optimize(graph, method)
    assert found.cost == found.lower_bound == least_peak_memory(plain(graph), 1)
    assert rj.evaluate(graph, found).peak_memory == found.peak_memory


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("evaluations", [1, 2, 30, 1000])
def test_a_budget_is_kept_and_repeats(method, evaluations):
    graph = layered_graph(2, 80)
    one, two = (optimize(graph, method, evaluations=evaluations, seed=5) for _ in range(2))
    assert one.ops_in_order().tolist() == two.ops_in_order().tolist()
    assert one.lower_bound == two.lower_bound <= one.cost
    assert one.evaluations <= evaluations
    spent, costs = np.array(one.history).T
    assert np.all(np.diff(spent) > 0)
    assert np.all(np.diff(costs) <= 0)


def test_more_budget_closes_the_gap():
    graph = layered_graph(2, 80)
    found = [optimize(graph, evaluations=evaluations) for evaluations in (1, 100, 20_000)]
    costs, bounds = [one.cost for one in found], [one.lower_bound for one in found]
    assert costs == sorted(costs, reverse=True)
    assert bounds == sorted(bounds)
    assert costs[-1] == bounds[-1]


@pytest.mark.parametrize("method", METHODS)
def test_a_time_limit_ends_it(method):
    graph = layered_graph(0, 300)
    found = optimize(graph, method, time_limit=0.5)
    assert found.lower_bound <= found.cost <= optimize(graph, "depth_first").cost
    assert found.seconds < 60


@pytest.mark.parametrize("method", METHODS)
def test_a_capacity_below_the_optimum_gives_the_least_excess(method):
    graph = random_graph(4, 7)
    least = int(least_peak_memory(plain(graph), 1))
    assert optimize(graph, method, memory_capacity=least - 1).cost == least
    assert optimize(graph, method, memory_capacity=least).cost == least


def test_better_orders_are_told_as_they_are_found():
    told = []
    graph = layered_graph(2, 80)
    found = optimize(graph, evaluations=20_000, on_progress=lambda *point: told.append(point))
    better = [cost for _, cost in found.history]
    assert len(set(better)) > 2
    assert set(better) <= {cost for _, cost in told}
    assert [cost for _, cost in told] == sorted((cost for _, cost in told), reverse=True)
    assert min(better) == found.cost

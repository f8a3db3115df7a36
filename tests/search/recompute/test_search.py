"""Plans within a limit: never better than the least work there is, and within what they say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments.recompute import checker
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.orders import rules
from regal_jax.search.orders.dynamic_programming import order_peak
from regal_jax.search.recompute.search import (
    ORDERING,
    PlanSearch,
    base_orders,
    order_of_runs,
    plans_within,
)
from tests.oracles import recomputation as oracle
from tests.oracles.schedule_cost import plain
from tests.policies.cases import random_graph
from tests.strategies import computation_graphs


@given(computation_graphs(max_ops=5, max_tensors=7), st.floats(0, 1), st.integers(0, 9))
@settings(max_examples=25)
def test_no_plan_beats_the_least_work(graph, part, seed):
    search = PlanSearch(graph, rules.depth_first(graph), graph.duration, seed=seed)
    limit = int(part * search.plain.peak)
    plan = search.within(limit, 2000)
    if plan is None:
        assert limit < search.nearest.peak == max(checker.usage(graph, search.nearest.runs))
        return
    better = search.improve(limit, 200)
    least = oracle.least_work(plain(graph), limit)
    assert least <= better.work <= plan.work
    for one in (plan, better):
        assert one.peak == max(checker.usage(graph, one.runs)) <= limit
        assert one.work == graph.duration[one.runs].sum()


@given(computation_graphs(max_ops=7, max_tensors=9), st.floats(0, 1))
@settings(max_examples=25)
def test_a_plan_has_an_order_for_others(graph, part):
    search = PlanSearch(graph, rules.depth_first(graph), graph.duration)
    plan = search.within(int(part * search.plain.peak), 200) or search.nearest
    order, evaluations = order_of_runs(graph, plan.runs, lambda: False)
    assert 1 <= evaluations <= ORDERING
    checker.usage(graph, order.tolist())  # raises ScheduleError for what can't run
    assert sorted(order.tolist()) == list(range(graph.num_ops))
    if len(plan.runs) == graph.num_ops:
        assert order_peak(graph, order) <= plan.peak


def test_ops_that_may_not_run_again_do_not():
    """A small result of op 0 would wait while op 2 makes a large one."""
    graph = ComputationGraph.create(
        num_ops=4, producer=[0, 1, 2, 3], size=[9, 1, 12, 1], consumers=[[1, 3], [2], [], []]
    )
    free = PlanSearch(graph, np.arange(4), graph.duration).within(13, 1000)
    assert free is not None
    assert free.runs.tolist() == [0, 1, 2, 0, 3]
    assert PlanSearch(graph, np.arange(4), graph.duration, once=[0]).within(13, 1000) is None


@pytest.mark.parametrize(("seed", "limit"), [(2, 779), (6, 990)])
def test_neighbourhoods_fit_where_no_gap_alone_helps(seed, limit):
    """Gap by gap, at random too, ends at 883 and 992 bytes."""
    graph = random_graph(seed, 14)
    search = PlanSearch(graph, rules.depth_first(graph), graph.duration)
    plan = search.within(limit, 10_000) or search.within(limit, 10_000)
    assert plan is not None
    assert max(checker.usage(graph, plan.runs)) == plan.peak <= limit


@pytest.mark.parametrize("seed", [0, 1])
def test_the_same_seed_finds_the_same(seed):
    graph = random_graph(3, 30)
    order = rules.depth_first(graph)
    found = []
    for _ in range(2):
        search = PlanSearch(graph, order, graph.duration, seed=seed)
        limit = int(0.8 * search.plain.peak)
        search.within(limit, 5000)
        found.append(search.improve(limit, 5000))
    assert found[0].runs.tolist() == found[1].runs.tolist()


def test_plans_of_several_base_orders():
    graph = random_graph(3, 30)
    searches = {
        name: PlanSearch(graph, order, graph.duration) for name, order in base_orders(graph).items()
    }
    assert len({tuple(order.tolist()) for order in base_orders(graph).values()}) == 3
    peaks = {name: search.plain.peak for name, search in searches.items()}
    found = plans_within(searches, min(peaks.values()), 3000, 100)
    least = min(peaks, key=peaks.__getitem__)
    assert found[least].work == graph.duration.sum()
    for name, plan in found.items():
        assert plan.peak == max(checker.usage(graph, plan.runs)) <= min(peaks.values())
        assert plan.work >= graph.duration.sum()
        assert name in searches
    assert plans_within(searches, 1, 100, 100) == {}

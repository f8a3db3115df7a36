"""List heuristics: valid, what the papers say, and within the bounds that are known."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments.placement import bounds, checker
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.placement.tasks import task_graph, upward_ranks
from regal_jax.environments.platform import Platform
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.list_scheduling.heuristics import HEURISTICS
from tests.oracles.list_scheduling import ORACLES, tasks_of
from tests.strategies import computation_graphs

NAMES = sorted(HEURISTICS)


@st.composite
def platforms(draw, *, free: bool = False) -> Platform:
    """1 to 4 devices; whole numbers, so that sums are exact in any order."""
    latency, per_byte = (0, 0) if free else draw(st.sampled_from([(0, 0), (0, 1), (3, 0), (1, 2)]))
    return Platform(draw(st.integers(1, 4)), latency=latency, per_byte=per_byte)


def data_graph(durations, edges, sizes=None) -> ComputationGraph:
    """One tensor an edge, by default of one byte."""
    return ComputationGraph.create(
        num_ops=len(durations),
        producer=[u for u, _ in edges],
        size=[1] * len(edges) if sizes is None else sizes,
        consumers=[[v] for _, v in edges],
        duration=durations,
    )


def planned(name, graph, platform):
    """(device, start) by op, of a heuristic's own plan."""
    tasks = task_graph(graph, platform)
    place, start = HEURISTICS[name].__wrapped__(tasks, platform.num_devices)
    return {int(op): (int(d), float(s)) for op, d, s in zip(tasks.op, place, start, strict=True)}


def makespan_of(name, graph, platform) -> float:
    return checker.evaluate(graph, HEURISTICS[name](graph, platform), platform).makespan


def graham_bound(graph, num_devices) -> float:
    longest = precedence.critical_path(graph)[0]
    return math.fsum(graph.duration) / num_devices + (1 - 1 / num_devices) * longest


@settings(max_examples=60)
@given(computation_graphs(), platforms(), st.sampled_from(NAMES))
def test_schedules_are_valid_and_no_longer_than_planned(graph, platform, name):
    schedule = HEURISTICS[name](graph, platform)
    assert schedule.objective == "makespan"
    cost = checker.evaluate(graph, schedule, platform)
    tasks = task_graph(graph, platform)
    timetable = HEURISTICS[name].__wrapped__(tasks, platform.num_devices)
    assert cost.makespan <= np.max(timetable.start + tasks.duration, initial=0.0)
    assert np.all(cost.start[tasks.op] <= timetable.start)
    assert cost.makespan >= bounds.makespan_bound(graph, platform) - 1e-9


@settings(max_examples=60)
@given(computation_graphs(), st.data(), st.sampled_from(NAMES))
def test_never_longer_than_planned_with_rounding(graph, data, name):
    """Durations from nothing to huge: sums that round, and gaps of no length."""
    times = st.sampled_from([0.0, 1e-30, 0.1, 0.3, 1 / 3, 7.0, 1e17])
    durations = data.draw(st.lists(times, min_size=graph.num_ops, max_size=graph.num_ops))
    graph = graph.replace(duration=np.array(durations))
    platform = Platform(data.draw(st.integers(1, 3)), latency=data.draw(times), per_byte=0.1)
    cost = checker.evaluate(graph, HEURISTICS[name](graph, platform), platform)
    tasks = task_graph(graph, platform)
    timetable = HEURISTICS[name].__wrapped__(tasks, platform.num_devices)
    assert np.all(cost.start[tasks.op] <= timetable.start)


@settings(max_examples=150)
@given(computation_graphs(max_ops=9), platforms(), st.sampled_from(NAMES))
def test_plans_are_those_of_the_papers_pseudo_code(graph, platform, name):
    ours = planned(name, graph, platform)
    oracle = ORACLES[name](graph, platform.num_devices, platform.latency, platform.per_byte)
    assert ours == oracle


@settings(max_examples=40)
@given(computation_graphs(), st.sampled_from(NAMES))
def test_one_device_takes_the_sum_of_durations(graph, name):
    platform = Platform(1, latency=5, per_byte=2)
    assert makespan_of(name, graph, platform) == graph.duration.sum()


@settings(max_examples=60)
@given(computation_graphs(max_ops=16), platforms(free=True))
def test_grahams_bound_without_communication(graph, platform):
    bound = graham_bound(graph, platform.num_devices)
    for name in ("critical_path", "etf"):
        assert makespan_of(name, graph, platform) <= bound + 1e-9


@settings(max_examples=60)
@given(computation_graphs(max_ops=16), platforms(free=True))
def test_earliest_task_first_is_list_scheduling_without_communication(graph, platform):
    assert planned("etf", graph, platform) == planned("critical_path", graph, platform)


def b_levels(graph, platform):
    tasks = task_graph(graph, platform)
    levels = np.empty(graph.num_ops)
    levels[tasks.op] = upward_ranks(tasks)
    return levels


@settings(max_examples=60)
@given(computation_graphs(max_ops=10), platforms())
def test_upward_ranks(graph, platform):
    levels = b_levels(graph, platform)
    tasks = tasks_of(graph, platform.latency, platform.per_byte)
    for op in range(graph.num_ops):
        rest = max((tasks.c[op, after] + levels[after] for after in tasks.succ(op)), default=0.0)
        assert levels[op] == graph.duration[op] + rest
    free = b_levels(graph, Platform(platform.num_devices))
    np.testing.assert_array_equal(free, precedence.bottom_levels(graph))


TREE = data_graph([1] * 7, [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)])
"""A binary tree of seven ops."""


@pytest.mark.parametrize("name", NAMES)
def test_a_tree_is_parallel_only_if_communication_is_cheap(name):
    assert makespan_of(name, TREE, Platform(2)) == 4
    assert makespan_of(name, TREE, Platform(4)) == 3
    expensive = Platform(2, latency=100)
    assert makespan_of(name, TREE, expensive) == 7
    assert len(set(HEURISTICS[name](TREE, expensive).placement.tolist())) == 1


@pytest.mark.parametrize("name", ["heft", "etf"])
@settings(max_examples=40)
@given(graph=computation_graphs(), devices=st.integers(1, 4))
def test_huge_delays_keep_what_one_op_begins_on_one_device(name, graph, devices):
    """All ops but the first read from it, directly or not."""
    first = int(graph.topological_order[0])
    others = [op for op in range(graph.num_ops) if op != first]
    columns = {
        "producer": [*graph.producer.tolist(), first],
        "size": [*graph.size.tolist(), 1],
        "consumers": [*map(graph.consumers.row, range(graph.num_tensors)), others],
    }
    rooted = ComputationGraph.create(num_ops=graph.num_ops, duration=graph.duration, **columns)
    platform = Platform(devices, latency=1e6)
    assert makespan_of(name, rooted, platform) == graph.duration.sum()
    assert len(set(HEURISTICS[name](rooted, platform).placement.tolist())) == 1


GAP = data_graph([2, 3, 3, 1], [(0, 1), (0, 2)], [4, 4])
"""0 before 1 and 2, which take 3 each; 3 stands alone."""


def test_heft_by_hand():
    """Ranks 0: 9, 1 and 2: 3, 3: 1. Crossing takes 4: 2 starts behind 1 on device 0, at 5, rather
    than at 6; then 3 starts at once on device 1."""
    assert planned("heft", GAP, Platform(2, per_byte=1)) == {
        0: (0, 0.0),
        1: (0, 2.0),
        2: (0, 5.0),
        3: (1, 0.0),
    }


def test_heft_fills_gaps_and_the_schedule_keeps_them():
    """Ranks 0: 7, 1: 6, 2: 4, 3: 1. Both ends of 2 are waited for on either device, so a gap of 2
    opens before it, and 3 goes there though it is last."""
    graph = data_graph([1, 2, 4, 1, 9], [(0, 2), (1, 2)], [2, 0])
    plan = planned("heft", graph, Platform(2, per_byte=1))
    assert plan == {4: (0, 0.0), 0: (1, 0.0), 1: (1, 1.0), 2: (1, 3.0), 3: (1, 7.0)}
    late = data_graph([9, 2, 4, 1], [(0, 2), (1, 2)], [2, 0])
    plan = planned("heft", late, Platform(2, per_byte=1))
    assert plan == {0: (0, 0.0), 1: (1, 0.0), 2: (0, 9.0), 3: (1, 2.0)}
    assert HEURISTICS["heft"](late, Platform(2)).ops_in_order().tolist() == [1, 0, 3, 2]


def test_an_insertion_before_what_was_planned_first():
    """1 waits on device 1 for 0's tensor; 2 is planned last and runs there before it."""
    graph = data_graph([4, 5, 3, 3], [(0, 1), (0, 3)], [1, 1])
    platform = Platform(2, per_byte=1)
    plan = planned("heft", graph, platform)
    assert plan == {0: (0, 0.0), 1: (0, 4.0), 3: (1, 5.0), 2: (1, 0.0)}
    schedule = HEURISTICS["heft"](graph, platform)
    assert checker.evaluate(graph, schedule, platform).makespan == 9
    assert schedule.ops_in_order().tolist() == [2, 0, 1, 3]


def test_cpop_keeps_a_critical_path_on_one_device():
    """0 -> 1 -> 4 is the longest path; 2 and 3 are put where they end first."""
    graph = data_graph([1, 5, 2, 2, 1], [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4)])
    plan = planned("cpop", graph, Platform(2))
    assert [plan[op] for op in (0, 1, 4)] == [(1, 0.0), (1, 1.0), (1, 6.0)]
    assert [plan[op] for op in (2, 3)] == [(0, 1.0), (0, 3.0)]


def test_earliest_task_first_does_not_wait_for_a_tensor():
    """2 reads from both devices and can start at 4; 3, of lower level, at 1, but only beside 0. The
    list scheduler takes 2 first all the same."""
    graph = data_graph([1, 1, 4, 2], [(0, 2), (1, 2), (0, 3)], [3, 3, 9])
    platform = Platform(2, per_byte=1)
    sources = {0: (0, 0.0), 1: (1, 0.0)}
    assert planned("etf", graph, platform) == sources | {3: (0, 1.0), 2: (0, 4.0)}
    assert planned("critical_path", graph, platform) == sources | {2: (0, 4.0), 3: (0, 8.0)}


def test_hbmct_balances_a_group():
    """Five independent ops, 3 3 2 2 2, by rank: 3 | 3, then 2 | 2 and 2: 7 | 5; no move helps."""
    plan = planned("hbmct", data_graph([3, 3, 2, 2, 2], []), Platform(2))
    assert [plan[op][0] for op in range(5)] == [0, 1, 0, 1, 0]
    assert plan[4] == (0, 5.0)


def test_hbmct_moves_a_task_from_the_device_that_ends_last():
    """Ranks 70, 68, 65 and 60, 58, 25: two groups. In the first, 0 and 2 meet on device 0, which
    ends at 50; 0 leaves it for device 1."""
    graph = data_graph([10, 10, 40, 60, 58, 25], [(0, 3), (1, 4), (2, 5)])
    assert planned("hbmct", graph, Platform(2)) == {
        0: (1, 0.0),
        1: (1, 10.0),
        2: (0, 0.0),
        3: (1, 20.0),
        4: (0, 40.0),
        5: (1, 80.0),
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_without_ops(name):
    empty = ComputationGraph.create(num_ops=0, producer=[], size=[], consumers=[])
    schedule = HEURISTICS[name](empty, Platform(3))
    assert schedule.steps.tolist() == []
    assert checker.evaluate(empty, schedule).makespan == 0


@pytest.mark.parametrize("name", NAMES)
def test_more_devices_than_ops_and_a_capacity_that_is_ignored(name):
    platform = Platform(9, memory_capacity=1)
    problem = PlacementProblem.on(TREE, platform, "makespan")
    assert problem.costed(HEURISTICS[name](TREE, platform)).makespan == 3

"""CP-SAT against every schedule of tiny graphs, its bounds, hints and limits."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments.placement import bounds, checker
from regal_jax.environments.platform import Platform
from regal_jax.errors import MissingDependencyError, OptionError, ScheduleError
from regal_jax.graphs import random_graphs
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.cp_sat import placement as cp_sat_placement
from regal_jax.search.orders import rules
from tests.oracles import exhaustive_search
from tests.oracles.schedule_cost import plain
from tests.strategies import computation_graphs

pytest.importorskip("ortools")

TINY = settings(max_examples=40, deadline=None)
ENOUGH = 60.0
"""Seconds; tiny graphs take a hundredth of one."""


@st.composite
def tiny_problems(draw, *, limited=False):
    """A graph and platform with few enough schedules to try them all."""
    num_devices = draw(st.integers(1, 3))
    most = {1: (6, 8), 2: (5, 5), 3: (4, 4)}[num_devices]
    graph = draw(computation_graphs(max_ops=most[0], max_tensors=most[1]))
    capacity = None
    if limited:
        numbers = st.sampled_from([25, 60, 100, 250, 1100, 4200, 9000])
        one_each = st.lists(numbers, min_size=num_devices, max_size=num_devices)
        capacity = draw(numbers | one_each.map(tuple))
    latency, per_byte = draw(st.sampled_from([(0.0, 0.0), (2.0, 0.0), (0.5, 0.25), (0.0, 1.0)]))
    return graph, Platform(num_devices, capacity, latency, per_byte)


def check(graph, platform, objective, solution, least):
    """The solution is the cheapest schedule there is, valid, and proven."""
    if least == np.inf:
        assert solution == cp_sat_placement.Solution(None, np.inf, False, ())
        return
    cost = checker.evaluate(graph, solution.schedule, platform)
    exact = cost.makespan if objective == "makespan" else max(cost.peak_memory)
    assert exact == solution.schedule.cost == least == solution.bound
    assert solution.optimal


def busy_graph(seed, num_ops, *, unit=3):
    """Each op makes a tensor that one to three later ops read, so that orders and cuts matter."""
    rng = np.random.default_rng(seed)
    readers = [rng.integers(op + 1, num_ops, rng.integers(1, 4)) for op in range(num_ops - 1)]
    given = [rng.integers(0, num_ops, 2) for _ in range(2)]
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=[*range(num_ops), -1, -1],
        size=unit * rng.integers(0, 10, num_ops + 2),
        persistent=rng.random(num_ops + 2) < 0.15,
        consumers=[*(row.tolist() for row in readers), [], *(row.tolist() for row in given)],
        duration=rng.integers(0, 9, num_ops) / 4,
        workspace=unit * rng.integers(0, 4, num_ops),
    )


def in_program_order(graph, num_devices, objective="peak_memory", seed=0):
    """Random devices, ops as numbered."""
    placement = np.random.default_rng(seed).integers(0, num_devices, graph.num_ops)
    return rules.build_schedule(
        graph,
        rules.program_order(graph),
        placement.astype(np.int32),
        objective=objective,
        num_devices=num_devices,
    )


def program_of(graph, platform, objective):
    """A model with room for any schedule."""
    from ortools.sat.python import cp_model

    parts = cp_sat_placement.model_parts(graph, platform, objective, np.inf)
    return cp_sat_placement.build_model(cp_model.CpModel(), graph, platform, parts, 0.0, None)


@TINY
@given(tiny_problems())
def test_least_peak_memory(problem):
    graph, platform = problem
    least = exhaustive_search.least_peak_memory(plain(graph), platform.num_devices)
    solution = cp_sat_placement.solve(graph, platform, "peak_memory", seconds=ENOUGH)
    check(graph, platform, "peak_memory", solution, least)


@TINY
@given(tiny_problems(limited=True))
def test_least_peak_memory_within_a_capacity(problem):
    graph, platform = problem
    least = exhaustive_search.least_peak_memory(
        plain(graph), platform.num_devices, platform.capacities()
    )
    solution = cp_sat_placement.solve(graph, platform, "peak_memory", seconds=ENOUGH)
    check(graph, platform, "peak_memory", solution, least)


@TINY
@given(tiny_problems())
def test_least_makespan(problem):
    graph, platform = problem
    least = exhaustive_search.least_makespan(
        plain(graph),
        platform.num_devices,
        latency=platform.latency,
        per_byte=platform.per_byte,
    )
    solution = cp_sat_placement.solve(graph, platform, "makespan", seconds=ENOUGH)
    check(graph, platform, "makespan", solution, least)


@TINY
@given(tiny_problems(limited=True))
def test_least_makespan_within_a_capacity(problem):
    graph, platform = problem
    least = exhaustive_search.least_makespan(
        plain(graph),
        platform.num_devices,
        platform.capacities(),
        latency=platform.latency,
        per_byte=platform.per_byte,
    )
    solution = cp_sat_placement.solve(graph, platform, "makespan", seconds=ENOUGH)
    check(graph, platform, "makespan", solution, least)


@pytest.mark.parametrize("num_devices", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_tight_capacities(num_devices, seed):
    """Devices unlike each other, a little above what peak memory can be: memory binds time."""
    graph = busy_graph(seed, {1: 7, 2: 5, 3: 4}[num_devices])
    least = exhaustive_search.least_peak_memory(plain(graph), num_devices)
    capacity = tuple(int(least) + 3 * (seed + device) for device in range(num_devices))
    platform = Platform(num_devices, capacity, latency=0.5, per_byte=0.125)
    for objective, search, link in (
        ("peak_memory", exhaustive_search.least_peak_memory, {}),
        ("makespan", exhaustive_search.least_makespan, {"latency": 0.5, "per_byte": 0.125}),
    ):
        best = search(plain(graph), num_devices, capacity, **link)
        solution = cp_sat_placement.solve(graph, platform, objective, seconds=ENOUGH)
        check(graph, platform, objective, solution, best)


def test_two_chains():
    """Each makes a large tensor and of it a small one: one after the other, or one a device."""
    graph = ComputationGraph.create(
        num_ops=5,
        producer=[0, 1, 2, 3, 4],
        size=[100, 10, 100, 10, 0],
        consumers=[[1], [4], [3], [4], []],
    )
    one = cp_sat_placement.solve(graph, Platform(1), "peak_memory", seconds=ENOUGH)
    two = cp_sat_placement.solve(graph, Platform(2), "peak_memory", seconds=ENOUGH)
    assert (one.schedule.cost, one.optimal) == (120, True)  # 100, 110, 10 + 100, 10 + 100 + 10
    assert (two.schedule.cost, two.optimal) == (110, True)


@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from([1e-3, 1.0]))
@settings(max_examples=16, deadline=None)
def test_makespan_bound_holds_where_durations_are_rounded(seed, num_devices, longest_transfer):
    """Beside transfers that take 1,000 times as long, rounding may hide that it is reached."""
    rng = np.random.default_rng(seed)
    graph = busy_graph(seed, 5).replace(duration=rng.exponential(1e-3, 5) * rng.choice([1, 1e6], 5))
    latency, per_byte = longest_transfer * rng.random(2)
    least = exhaustive_search.least_makespan(
        plain(graph), num_devices, latency=latency, per_byte=per_byte
    )
    platform = Platform(num_devices, latency=latency, per_byte=per_byte)
    solution = cp_sat_placement.solve(graph, platform, "makespan", seconds=ENOUGH)
    assert solution.bound <= least <= solution.schedule.cost
    assert solution.schedule.cost == pytest.approx(least, rel=cp_sat_placement.ROUNDING)
    assert solution.optimal or longest_transfer == 1.0


@given(st.data(), st.sampled_from(["peak_memory", "makespan"]), st.booleans())
@settings(max_examples=25, deadline=None)
def test_a_hint_is_a_whole_solution(data, objective, limited):
    """Fixed to the hint's values, the model is solved and decodes to the hint's cost at most."""
    from ortools.sat.python import cp_model

    num_devices = data.draw(st.integers(1, 3))
    graph = data.draw(computation_graphs(max_ops=10))
    hint = in_program_order(graph, num_devices, objective)
    cost = checker.evaluate(graph, hint)
    hint = hint.replace(peak_memory=tuple(cost.peak_memory.tolist()), makespan=cost.makespan)
    capacity = max(1, *hint.peak_memory, 1) if limited else None
    model = program_of(graph, Platform(num_devices, capacity), objective)
    hinted = list(cp_sat_placement.hint_values(graph, model, hint))
    for variable, value in hinted:
        model.program.add(variable == value)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model.program) == cp_model.OPTIMAL
    assert solver.value(model.cost) == hint.cost or objective == "peak_memory"
    constants = 1 if num_devices == 1 else 0
    free = [v for v in model.program.proto.variables if v.domain[0] < v.domain[1]]
    assert len({v.index for v, _ in hinted}) >= len(free) - constants


def test_an_optimal_hint_is_kept_and_proven():
    graph = busy_graph(3, 6)
    for objective in ("peak_memory", "makespan"):
        best = cp_sat_placement.solve(graph, Platform(2), objective, seconds=ENOUGH)
        costs = []
        again = cp_sat_placement.solve(
            graph,
            Platform(2),
            objective,
            seconds=ENOUGH,
            hint=best.schedule,
            on_solution=lambda seconds, cost, costs=costs: costs.append(cost),
        )
        assert again.schedule == best.schedule
        assert again.optimal
        assert [cost for _, cost in again.history] == costs == [best.schedule.cost]


def test_a_bad_hint_is_improved_and_history_falls():
    graph = busy_graph(5, 12)
    hint = in_program_order(graph, 2)
    solution = cp_sat_placement.solve(graph, Platform(2), "peak_memory", seconds=ENOUGH, hint=hint)
    seconds, costs = zip(*solution.history, strict=True)
    assert costs[0] == max(checker.evaluate(graph, hint).peak_memory)
    assert list(costs) == sorted(set(costs), reverse=True)
    assert list(seconds) == sorted(seconds)
    assert costs[-1] == solution.schedule.cost < costs[0]


def test_a_hint_beyond_the_capacity_is_only_a_starting_point():
    graph = busy_graph(5, 8)
    hint = in_program_order(graph, 2)
    least = cp_sat_placement.solve(graph, Platform(2), "peak_memory", seconds=ENOUGH).schedule.cost
    platform = Platform(2, int(least))
    for objective in ("peak_memory", "makespan"):
        solution = cp_sat_placement.solve(graph, platform, objective, seconds=ENOUGH, hint=hint)
        assert max(solution.schedule.peak_memory) <= least
        unhinted = cp_sat_placement.solve(graph, platform, objective, seconds=ENOUGH)
        assert solution.schedule.cost == unhinted.schedule.cost
        assert (
            cp_sat_placement.solve(graph, platform, objective, seconds=0, hint=hint).schedule
            is None
        )


@pytest.mark.parametrize("objective", ["peak_memory", "makespan"])
@pytest.mark.parametrize("seconds", [0, 1e-6])
def test_without_time_the_hint_is_returned(objective, seconds):
    graph = busy_graph(0, 30)
    hint = in_program_order(graph, 2, objective)
    solution = cp_sat_placement.solve(graph, Platform(2), objective, seconds=seconds, hint=hint)
    assert solution.schedule.steps.tolist() == hint.steps.tolist()
    bound = bounds.lower_bound(graph, objective, Platform(2))
    assert 0 < bound == solution.bound <= solution.schedule.cost
    unhinted = cp_sat_placement.solve(graph, Platform(2), objective, seconds=seconds)
    assert unhinted == cp_sat_placement.Solution(None, bound, False, ())


@pytest.mark.parametrize("objective", ["peak_memory", "makespan"])
def test_nothing_fits(objective):
    graph = busy_graph(0, 6)
    solution = cp_sat_placement.solve(graph, Platform(2, 1), objective, seconds=ENOUGH)
    assert solution == cp_sat_placement.Solution(None, np.inf, False, ())


@pytest.mark.parametrize("objective", ["peak_memory", "makespan"])
def test_graph_without_ops(objective):
    graph = ComputationGraph.create(num_ops=0, producer=[-1], size=[5], consumers=[[]])
    solution = cp_sat_placement.solve(graph, Platform(2), objective, seconds=1)
    assert (solution.schedule.cost, solution.bound, solution.optimal) == (0, 0, True)


def test_sizes_beyond_int64_are_divided_or_given_up():
    graph = busy_graph(1, 6, unit=2**49)
    small = cp_sat_placement.solve(
        busy_graph(1, 6, unit=1), Platform(2), "peak_memory", seconds=ENOUGH
    )
    large = cp_sat_placement.solve(graph, Platform(2), "peak_memory", seconds=ENOUGH)
    assert large.schedule.cost == small.schedule.cost * 2**49
    odd = ComputationGraph.create(
        num_ops=20,
        producer=range(20),
        size=[2**48 - 1 - op for op in range(20)],
        consumers=[*([op + 1] for op in range(19)), []],
    )
    given_up = cp_sat_placement.solve(odd, Platform(8), "peak_memory", seconds=ENOUGH)
    assert given_up.schedule is None
    assert given_up.bound == bounds.lower_bound(odd, "peak_memory", Platform(8))


def test_graph_too_large_to_model():
    num_ops = cp_sat_placement.MAX_OPS + 1
    graph = ComputationGraph.create(
        num_ops=num_ops,
        producer=range(num_ops),
        size=[1] * num_ops,
        consumers=[*([op + 1] for op in range(num_ops - 1)), []],
    )
    hint = in_program_order(graph, 2)
    solution = cp_sat_placement.solve(graph, Platform(2), "peak_memory", seconds=ENOUGH, hint=hint)
    assert solution.schedule.steps.tolist() == hint.steps.tolist()
    assert solution.bound == 2


@pytest.mark.parametrize("objective", ["peak_memory", "makespan"])
@pytest.mark.parametrize("capacity", [None, 400])
def test_larger_graph(objective, capacity):
    rng = np.random.default_rng(0)
    edges = random_graphs.layered(rng, 60, 6)
    producer, reader = edges.T
    graph = ComputationGraph.create(
        num_ops=60,
        producer=range(60),
        size=rng.integers(1, 50, 60),
        consumers=[reader[producer == op].tolist() for op in range(60)],
        duration=rng.random(60),
    )
    platform = Platform(2, capacity, latency=0.25)
    hint = in_program_order(graph, 2, objective)
    solution = cp_sat_placement.solve(graph, platform, objective, seconds=1, hint=hint)
    cost = checker.evaluate(graph, solution.schedule, platform)
    assert solution.schedule.peak_memory == tuple(cost.peak_memory.tolist())
    assert solution.schedule.makespan == cost.makespan
    assert bounds.lower_bound(graph, objective, platform) <= solution.bound
    assert solution.bound <= solution.schedule.cost <= solution.history[0][1]


@pytest.mark.parametrize("objective", ["peak_memory", "makespan"])
def test_finished_searches_of_one_seed_agree(objective):
    graph = busy_graph(7, 9)
    one, other = (
        cp_sat_placement.solve(graph, Platform(2, 10**6), objective, seconds=ENOUGH, seed=4)
        for _ in range(2)
    )
    assert one.optimal
    assert one.schedule == other.schedule
    assert [cost for _, cost in one.history] == [cost for _, cost in other.history]


def test_several_workers():
    graph = busy_graph(2, 6)
    one, many = (
        cp_sat_placement.solve(graph, Platform(2), "peak_memory", seconds=ENOUGH, workers=workers)
        for workers in (1, 3)
    )
    assert (many.optimal, many.schedule.cost) == (True, one.schedule.cost)


def test_errors():
    graph = busy_graph(0, 4)
    with pytest.raises(OptionError, match="objective"):
        cp_sat_placement.solve(graph, Platform(2), "latency", seconds=1)
    with pytest.raises(OptionError, match="seconds"):
        cp_sat_placement.solve(graph, Platform(2), "makespan", seconds=float("nan"))
    with pytest.raises(OptionError, match="workers"):
        cp_sat_placement.solve(graph, Platform(2), "makespan", seconds=1, workers=0)
    hint = in_program_order(graph, 3)
    with pytest.raises(ScheduleError, match="num_devices"):
        cp_sat_placement.solve(graph, Platform(2), "peak_memory", seconds=1, hint=hint)


def test_needs_ortools(monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(MissingDependencyError, match=r"ortools.*solvers"):
        cp_sat_placement.solve(busy_graph(0, 4), Platform(2), "peak_memory", seconds=1)

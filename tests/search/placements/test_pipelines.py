"""Published pipeline schedules against the formulas of their papers and a plain simulation."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.datasets.pipelines import pipeline
from regal_jax.environments import claims
from regal_jax.environments.placement import checker
from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError, ScheduleError
from regal_jax.search.orders import rules
from regal_jax.search.placements import pipelines as schedules
from tests.strategies import computation_graphs

SHAPES = [(1, 1), (1, 3), (2, 1), (2, 3), (3, 2), (3, 5), (4, 4), (4, 9)]
"""(stages, microbatches)."""

TIMES = [(1, 1, 1), (2, 3, 1), (3, 1, 2), (4, 5, 3), (1, 2, 1), (5, 1, 4)]
"""(forward, backward, weight_gradient) with weight_gradient <= forward; some of backward < it."""

M_B, M_W = 10, 7

SPLIT = {
    "gpipe": schedules.gpipe,
    "1f1b": schedules.one_f_one_b,
    "h1": schedules.zero_bubble_h1,
    "h2": schedules.zero_bubble_h2,
}


def step(stages, microbatches, times, **options):
    names = ("forward", "backward", "weight_gradient")
    sizes = {"activation_bytes": M_B, "kept_bytes": M_W}
    return pipeline(
        stages, microbatches, **dict(zip(names, times, strict=True)), **(sizes | options)
    )


def spans(graph, schedule):
    """float[D]: each device's time from its first op to its last."""
    ops = [np.flatnonzero(schedule.placement == d) for d in range(schedule.num_devices)]
    finish = schedule.start + graph.duration
    return np.array([finish[mine].max() - schedule.start[mine].min() for mine in ops])


def simulated_finishes(orders, times):
    """{op: finish} by relaxing all waits until nothing changes; knows nothing of graphs."""
    duration = dict(zip("FBW", times, strict=True))
    finish = {op: 0.0 for order in orders for op in order}
    waits = {op: [] for op in finish}
    for order in orders:
        for before, after in itertools.pairwise(order):
            waits[after].append(before)
    for kind, s, i in finish:
        needed = {"F": [("F", s - 1, i)], "B": [("F", s, i), ("B", s + 1, i)], "W": [("B", s, i)]}
        waits[kind, s, i] += [op for op in needed[kind] if op in finish]
    for _ in range(len(finish) + 1):
        new = {
            op: max((finish[before] for before in waits[op]), default=0.0) + duration[op[0]]
            for op in finish
        }
        if new == finish:
            return finish
        finish = new
    raise AssertionError("deadlock")


@pytest.mark.parametrize(("p", "m"), SHAPES)
@pytest.mark.parametrize("times", [*TIMES, (1, 2, 5)])
def test_gpipe_and_1f1b_by_the_textbook(p, m, times):
    graph = step(p, m, times, split_backward=False)
    for orders, memory in (
        (schedules.gpipe(p, m, split_backward=False), [m * M_B] * p),
        (
            schedules.one_f_one_b(p, m, split_backward=False),
            [min(m, p - s) * M_B for s in range(p)],
        ),
    ):
        schedule = schedules.pipeline_schedule(graph, orders)
        assert schedule.makespan == (m + p - 1) * sum(times)
        assert spans(graph, schedule).max() == schedule.makespan
        assert schedule.peak_memory == tuple(memory)


@pytest.mark.parametrize(("p", "m"), SHAPES)
@pytest.mark.parametrize("times", TIMES)
def test_split_backward_passes_shorten_gpipe_and_1f1b(p, m, times):
    graph, bubble = step(p, m, times), (p - 1) * (times[0] + times[1])
    for orders in (schedules.gpipe(p, m), schedules.one_f_one_b(p, m)):
        schedule = schedules.pipeline_schedule(graph, orders)
        assert schedule.makespan == m * sum(times) + bubble
        assert spans(graph, schedule).max() == schedule.makespan


@pytest.mark.parametrize(("p", "m"), [(1, 1), (1, 3), (2, 2), (2, 5), (3, 3), (4, 4), (4, 9)])
@pytest.mark.parametrize("times", TIMES)
def test_zero_bubble_h1(p, m, times):
    forward, backward, weight = times
    graph = step(p, m, times)
    schedule = schedules.pipeline_schedule(graph, schedules.zero_bubble_h1(p, m))
    cost = m * sum(times) + (p - 1) * (forward + backward - weight)
    assert spans(graph, schedule).max() == cost
    assert (schedule.makespan == cost) or weight > backward
    assert schedule.peak_memory == tuple((p - s) * M_B + s * M_W for s in range(p))
    assert max(schedule.peak_memory) == p * M_B


@pytest.mark.parametrize(("p", "m"), [(1, 1), (1, 3), (2, 3), (2, 6), (3, 5), (4, 7), (4, 9)])
@pytest.mark.parametrize("times", TIMES)
def test_zero_bubble_h2(p, m, times):
    forward, backward, weight = times
    graph = step(p, m, times)
    schedule = schedules.pipeline_schedule(graph, schedules.zero_bubble_h2(p, m))
    bubble = (p - 1) * max(forward + backward - 2 * weight, 0)
    assert spans(graph, schedule).max() == m * sum(times) + bubble
    if forward == backward == weight:
        np.testing.assert_array_equal(spans(graph, schedule), m * sum(times))
        assert schedule.makespan == m * sum(times) + (p - 1) * forward
    expected = [(2 * p - 2 * s - 1) * M_B + 2 * s * M_W for s in range(p)]
    assert schedule.peak_memory == tuple(expected)
    assert max(schedule.peak_memory) == (2 * p - 1) * M_B


@pytest.mark.parametrize("name", SPLIT)
@settings(max_examples=20)
@given(st.integers(1, 5), st.integers(1, 9), st.tuples(*[st.integers(0, 5)] * 3))
def test_starts_are_those_of_a_plain_simulation(name, p, m, times):
    orders = SPLIT[name](p, m)
    graph = step(p, m, times)
    schedule = schedules.pipeline_schedule(graph, orders)
    expected = {
        f"{kind}({s},{i})": finish
        for (kind, s, i), finish in simulated_finishes(orders, times).items()
    }
    finish = dict(zip(graph.op_names, schedule.start + graph.duration, strict=True))
    assert finish == expected
    ops = schedule.ops_in_order()
    assert np.all(np.diff(schedule.start[ops]) >= 0)
    for device, order in enumerate(orders):
        mine = [graph.op_names[op] for op in ops if schedule.placement[op] == device]
        assert mine == [f"{kind}({s},{i})" for kind, s, i in order]


def test_orders_by_hand():
    def text(order):
        return " ".join(f"{kind}{i}" for kind, _, i in order)

    assert text(schedules.gpipe(2, 2)[1]) == "F0 F1 B1 W1 B0 W0"
    assert text(schedules.one_f_one_b(2, 3, split_backward=False)[0]) == "F0 F1 B0 F2 B1 B2"
    assert text(schedules.zero_bubble_h1(2, 3)[1]) == "F0 B0 F1 B1 W0 F2 B2 W1 W2"
    assert text(schedules.zero_bubble_h2(2, 4)[0]) == "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3"
    assert text(schedules.zero_bubble_h2(2, 4)[1]) == "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3"


def test_boundaries_take_time_and_memory():
    graph = pipeline(2, 1, activation_bytes=8, weight_bytes=100, boundary_bytes=10)
    platform = Platform(num_devices=2, latency=2.0, per_byte=0.125)
    orders = schedules.one_f_one_b(2, 1)
    schedule = schedules.pipeline_schedule(graph, orders, platform=platform)
    delay = 2.0 + 10 * 0.125
    starts = dict(zip(graph.op_names, schedule.start, strict=True))
    assert starts["F(1,0)"] == 1 + delay
    assert starts["B(0,0)"] == 3 + 2 * delay
    assert schedule.makespan == 5 + 2 * delay
    assert schedule.peak_memory == (200 + 10 + 8, 200 + 10 + 8)
    cost = checker.evaluate(graph, schedule, platform)
    claims.check_claims(schedule, cost.peak_memory, cost.makespan, cost.start)


def test_a_schedule_beyond_the_memory_capacity_is_refused():
    graph = step(2, 4, (1, 1, 1))
    platform = Platform(num_devices=2, memory_capacity=25)
    schedules.pipeline_schedule(graph, schedules.one_f_one_b(2, 4), platform=platform)
    with pytest.raises(ScheduleError, match="device 0 needs 40 bytes"):
        schedules.pipeline_schedule(graph, schedules.gpipe(2, 4), platform=platform)


@given(computation_graphs(max_ops=10), st.integers(1, 3), st.randoms(use_true_random=False))
def test_any_consistent_orders_make_a_schedule(graph, num_devices, random):
    """Cut a valid sequence into devices: each keeps its part of it."""
    order = rules.random_order(graph, random.randrange(99)).tolist()
    place = [random.randrange(num_devices) for _ in order]
    orders = [
        [op for op, d in zip(order, place, strict=True) if d == k] for k in range(num_devices)
    ]
    schedule = schedules.device_schedule(graph, orders)
    done = schedule.ops_in_order().tolist()
    assert [
        [op for op in done if schedule.placement[op] == k] for k in range(num_devices)
    ] == orders
    reference = rules.build_schedule(
        graph, np.array(order), schedule.placement, objective="makespan", num_devices=num_devices
    )
    assert schedule.makespan == checker.evaluate(graph, reference).makespan


@pytest.mark.parametrize(
    ("orders", "message"),
    [
        ([[("B", 0, 0), ("F", 0, 0), ("W", 0, 0)]], r"deadlock: device 0 .* B\(0,0\)"),
        ([[("F", 0, 0), ("W", 0, 0)]], r"op B\(0,0\) is 0 times"),
        ([[("F", 0, 0), ("B", 0, 0), ("W", 0, 0), ("F", 0, 0)]], r"op F\(0,0\) is 2 times"),
        ([[("F", 1, 0)]], r"no op F\(1,0\)"),
    ],
)
def test_bad_orders(orders, message):
    graph = step(1, 1, (1, 1, 1))
    with pytest.raises(ScheduleError, match=message):
        schedules.pipeline_schedule(graph, orders)


def test_bad_ops_and_sizes():
    with pytest.raises(ScheduleError, match=r"not in 0\.\.2"):
        schedules.device_schedule(step(1, 1, (1, 1, 1)), [[0, 1, 7]])
    with pytest.raises(OptionError, match="needs a stage"):
        schedules.gpipe(0, 1)

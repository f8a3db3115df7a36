"""Diversity against plain loops over pairs, worked examples and what must not change it."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.environments.schedule import Schedule
from regal_jax.errors import OptionError, ScheduleError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import diversity as diversity_module
from regal_jax.reporting.diversity import (
    Diversity,
    diversity,
    one_hot_distance,
)


def graph_of(durations):
    return ComputationGraph.create(
        num_ops=len(durations), producer=[], size=[], consumers=[], duration=durations
    )


def schedule_of(placement, sequence, start, num_devices=4):
    return Schedule(
        graph="",
        objective="makespan",
        num_devices=num_devices,
        placement=np.array(placement, np.int32),
        steps=np.array(sequence, np.int64),
        start=np.array(start, float),
    )


@st.composite
def cases(draw, min_schedules=1, max_schedules=6):
    """(graph, schedules): ops without precedence, and start times that owe nothing to the order."""
    num_ops, num_devices = draw(st.integers(1, 7)), draw(st.integers(1, 4))

    def column(values):
        return st.lists(values, min_size=num_ops, max_size=num_ops)

    one = st.builds(
        schedule_of,
        column(st.integers(0, num_devices - 1)),
        st.permutations(range(num_ops)),
        column(st.integers(0, 30)),
        st.just(num_devices),
    )
    schedules = draw(st.lists(one, min_size=min_schedules, max_size=max_schedules))
    return graph_of(draw(column(st.integers(0, 9)))), schedules


def chain_edges(schedule):
    chains = {}
    for op in schedule.steps.tolist():
        chains.setdefault(int(schedule.placement[op]), []).append(op)
    return {pair for chain in chains.values() for pair in itertools.pairwise(chain)}


def pair_distances(graph, one, other):
    """(GED, d_inv, d_sen) of two schedules from the definitions alone."""
    edges = chain_edges(one), chain_edges(other)
    total = len(edges[0]) + len(edges[1])
    ged = 100 * len(edges[0] ^ edges[1]) / total if total else 0.0
    unit = sum(graph.duration) / graph.num_ops or 1.0
    times = [s.start.tolist() for s in (one, other)]
    d_inv = math.dist(*[[time / unit for time in some] for some in times])
    with_code = [
        [time / unit for time in some] + ten_times_one_hot(s)
        for some, s in zip(times, (one, other), strict=True)
    ]
    return ged, d_inv, math.dist(*with_code)


def ten_times_one_hot(schedule):
    return [10.0 * (device == other) for device in schedule.placement for other in range(4)]


@given(cases())
def test_agrees_with_loops_over_pairs(case):
    graph, schedules = case
    pairs = [pair_distances(graph, *pair) for pair in itertools.combinations(schedules, 2)]
    expected = np.mean(pairs, axis=0) if pairs else np.zeros(3)
    np.testing.assert_allclose(diversity(graph, schedules), expected, atol=1e-12)


def test_more_schedules_than_a_block(monkeypatch):
    rng = np.random.default_rng(0)
    graph = graph_of(rng.random(9))
    schedules = [
        schedule_of(rng.integers(0, 3, 9), rng.permutation(9), rng.random(9)) for _ in range(23)
    ]
    whole = diversity(graph, schedules)
    monkeypatch.setattr(diversity_module, "_BLOCK", 5)
    assert diversity(graph, schedules) == pytest.approx(whole, rel=1e-12)


def test_by_hand():
    """Chains 0 1 2 3 on one device, and 0 1 and 2 3 on two: one edge of three and two differs."""
    graph = graph_of([2.0, 2.0, 2.0, 2.0])
    serial = schedule_of([0, 0, 0, 0], [0, 1, 2, 3], [0, 2, 4, 6])
    parallel = schedule_of([0, 0, 3, 3], [0, 2, 1, 3], [0, 2, 0, 2])
    d_inv = math.hypot(2, 2)
    assert diversity(graph, [serial, parallel]) == pytest.approx(
        (100 / 5, d_inv, math.hypot(d_inv, 20))
    )


def test_random_placements_are_as_far_apart_as_in_the_paper():
    """GFlowNet's d_sen of table 2 is 90.17, its d_inv 24.27: 86.84 is the placements' share."""
    rng = np.random.default_rng(0)
    placements = rng.integers(0, 4, (400, 50)).astype(np.int32)
    off_diagonal = ~np.eye(400, dtype=bool)
    apart = np.sqrt(one_hot_distance(placements, placements))[off_diagonal].mean()
    assert apart == pytest.approx(math.sqrt(90.17**2 - 24.27**2), rel=0.01)


@given(cases(max_schedules=1), st.integers(1, 5))
def test_equal_schedules_are_exactly_0_apart(case, count):
    graph, (schedule,) = case
    assert diversity(graph, [schedule] * count) == Diversity(0.0, 0.0, 0.0)


@given(cases(min_schedules=2), st.randoms())
def test_the_order_of_the_schedules_does_not_matter(case, random):
    graph, schedules = case
    shuffled = random.sample(schedules, len(schedules))
    assert diversity(graph, shuffled) == pytest.approx(diversity(graph, schedules), rel=1e-12)


@given(cases(min_schedules=2), st.data())
def test_names_of_devices_matter_to_d_sen_alone(case, data):
    graph, schedules = case
    renamed = []
    for schedule in schedules:
        names = np.array(data.draw(st.permutations(range(schedule.num_devices))), np.int32)
        renamed.append(schedule.replace(placement=names[schedule.placement]))
    before, after = diversity(graph, schedules), diversity(graph, renamed)
    assert (after.ged, after.d_inv) == pytest.approx((before.ged, before.d_inv), rel=1e-12)
    swapped = [schedules[0], schedules[0].replace(placement=schedules[0].placement + 1)]
    assert diversity(graph, swapped) == (0.0, 0.0, pytest.approx(10 * math.sqrt(2 * graph.num_ops)))


@given(cases(min_schedules=2))
def test_bounds(case):
    ged, d_inv, d_sen = diversity(*case)
    assert 0 <= ged <= 100 + 1e-9
    assert 0 <= d_inv <= d_sen


def test_a_reversed_chain_has_no_edge_in_common():
    graph = graph_of([1.0] * 5)
    forwards = schedule_of([0] * 5, range(5), range(5))
    backwards = schedule_of([0] * 5, range(5)[::-1], range(5))
    assert diversity(graph, [forwards, backwards]).ged == 100.0


def test_chains_without_edges_are_alike_and_as_far_from_others_as_can_be():
    graph = graph_of([1.0, 1.0])
    apart = schedule_of([0, 1], [0, 1], [0, 0])
    assert diversity(graph, [apart, schedule_of([1, 2], [1, 0], [0, 0])]).ged == 0.0
    assert diversity(graph, [apart, schedule_of([0, 0], [0, 1], [0, 1])]).ged == 100.0


def test_times_are_in_mean_durations():
    short = [schedule_of([0, 0], [0, 1], [0, 1]), schedule_of([0, 0], [1, 0], [1, 0])]
    long = [schedule.replace(start=1000 * schedule.start) for schedule in short]
    expected = diversity(graph_of([1.0, 1.0]), short)
    assert diversity(graph_of([500.0, 1500.0]), long) == pytest.approx(expected)


def test_transfers_are_not_ops_of_a_chain():
    graph = ComputationGraph.create(num_ops=2, producer=[0], size=[8], consumers=[[1]])
    plain = schedule_of([0, 1], [0, 1], [0, 1], num_devices=2)
    with_transfer = plain.replace(steps=np.array([0, 2 + 0 * 2 + 1, 1]))
    assert diversity(graph, [plain, with_transfer]) == Diversity(0.0, 0.0, 0.0)


def test_bad_input_is_refused_in_one_line():
    graph, schedule = graph_of([1.0, 1.0]), schedule_of([0, 0], [0, 1], [0, 1])
    with pytest.raises(OptionError, match="at least one schedule"):
        diversity(graph, [])
    with pytest.raises(ScheduleError, match="start times"):
        diversity(graph, [schedule.replace(start=None)])
    with pytest.raises(ScheduleError, match="2 ops for a graph of 3"):
        diversity(graph_of([1.0] * 3), [schedule])

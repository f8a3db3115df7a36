"""Candidates: makespans as the checker's, the best of them, and starts turned into devices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments import claims
from regal_jax.environments.placement import checker
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.errors import OptionError, ScheduleError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.orders import rules
from regal_jax.search.placements import candidates as candidates_of
from regal_jax.search.placements.candidates import Candidates
from tests.policies.cases import random_graph
from tests.strategies import computation_graphs


@st.composite
def problems(draw, *, free: bool = False, max_ops: int = 8) -> PlacementProblem:
    """Durations and delays that round, 0 included; 1 to 4 devices."""
    times = st.sampled_from([0.0, 1e-30, 0.1, 0.3, 1 / 3, 7.0, 1e17])
    graph = draw(computation_graphs(max_ops))
    durations = draw(st.lists(times, min_size=graph.num_ops, max_size=graph.num_ops))
    latency, per_byte = (0.0, 0.0) if free else (draw(times), draw(times))
    return PlacementProblem(
        graph.replace(duration=np.array(durations)),
        draw(st.integers(1, 4)),
        "makespan",
        latency=latency,
        per_byte=per_byte,
    )


SEEDS = st.integers(0, 2**32 - 1)


def random_candidates(problem, count, seed) -> Candidates:
    graph, rng = problem.graph, np.random.default_rng(seed)
    orders = [rules.random_order(graph, int(rng.integers(2**32))) for _ in range(count)]
    placement = rng.integers(problem.num_devices, size=(count, graph.num_ops), dtype=np.int32)
    return Candidates(placement, np.array(orders, np.int32).reshape(count, graph.num_ops))


def schedules_of(problem, candidates):
    return [
        rules.build_schedule(
            problem.graph, order, place, objective="makespan", num_devices=problem.num_devices
        )
        for place, order in zip(*candidates, strict=True)
    ]


def named_chains(placement, sequence) -> frozenset:
    """What each device runs, in order, without the devices' names."""
    devices = set(placement.tolist())
    return frozenset(
        tuple(op for op in sequence.tolist() if placement[op] == device) for device in devices
    )


def rows(candidates):
    return list(zip(*candidates, strict=True))


@settings(max_examples=100)
@given(problems(), st.integers(0, 4), SEEDS)
def test_makespans_are_exactly_those_of_the_checker(problem, count, seed):
    candidates = random_candidates(problem, count, seed)
    expected = [
        checker.evaluate(problem.graph, schedule, problem.platform).makespan
        for schedule in schedules_of(problem, candidates)
    ]
    found = candidates_of.makespans(problem, candidates)
    assert found.dtype == np.float64
    assert found.tolist() == expected


def test_transfers_matter_where_devices_are_crossed():
    """A diamond of 1 us each; 2 and 5 us for the tensors of 10 and 40 bytes."""
    graph = ComputationGraph.create(
        num_ops=4, producer=[0, 1, 2], size=[10, 40, 0], consumers=[[1, 2], [3], [3]]
    )
    problem = PlacementProblem(graph, 2, "makespan", latency=1.0, per_byte=0.1)
    order = [0, 1, 2, 3]
    candidates = Candidates(
        np.array([[0, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [1, 1, 0, 1]], np.int32),
        np.array([order] * 4, np.int32),
    )
    # 2 ends at 1 + 2 + 1 and its tensor of no bytes takes 1; 1 ends at 4 and its tensor takes 5.
    assert candidates_of.makespans(problem, candidates).tolist() == [4.0, 6.0, 10.0, 6.0]


def test_a_batch_over_threads_is_as_one_by_one():
    problem = PlacementProblem(random_graph(0, 60), 3, "makespan", latency=0.3)
    candidates = random_candidates(problem, 400, 0)
    found = candidates_of.makespans(problem, candidates)
    alone = [
        candidates_of.makespans(problem, Candidates(place[None], order[None]))[0]
        for place, order in rows(candidates)
    ]
    assert found.tolist() == alone
    assert len(set(alone)) > 10


@settings(max_examples=60)
@given(problems(max_ops=4), st.integers(1, 12), st.integers(1, 12), SEEDS)
def test_the_best_schedules_are_different_and_in_order(problem, number, count, seed):
    candidates = random_candidates(problem, number, seed)
    best = candidates_of.best_schedules(problem, candidates, count)
    first = {}
    for row in rows(candidates):
        first.setdefault(named_chains(*row), row)
    different = Candidates(*map(np.array, zip(*first.values(), strict=True)))
    times = candidates_of.makespans(problem, different)
    ranking = np.argsort(times, kind="stable")[:count]
    assert [schedule.makespan for schedule in best] == times[ranking].tolist()
    for schedule, row in zip(best, ranking, strict=True):
        assert schedule.placement.tolist() == different.placement[row].tolist()
        assert schedule.ops_in_order().tolist() == different.sequence[row].tolist()
        cost = checker.evaluate(problem.graph, schedule, problem.platform)
        claims.check_claims(schedule, cost.peak_memory, cost.makespan, cost.start)
        assert (schedule.start == cost.start).all()
        assert schedule.peak_memory == tuple(cost.peak_memory.tolist())
        assert schedule.objective == "makespan"


@settings(max_examples=60)
@given(problems(), SEEDS)
def test_chains_tell_schedules_apart_but_for_names_of_devices(problem, seed):
    rng = np.random.default_rng(seed)
    candidates = random_candidates(problem, 6, seed)
    renamed = rng.permutation(problem.num_devices).astype(np.int32)[candidates.placement]
    both = Candidates(
        np.concatenate([candidates.placement, renamed]),
        np.concatenate([candidates.sequence] * 2),
    )
    keys = [row.tobytes() for row in candidates_of.chains(both)]
    expected = [named_chains(*row) for row in rows(both)]
    for i in range(12):
        for j in range(i):
            assert (keys[i] == keys[j]) == (expected[i] == expected[j])
    assert keys[:6] == keys[6:]


def test_the_chains_of_a_small_schedule():
    candidates = Candidates(np.array([[0, 1, 0, 1, 2]]), np.array([[3, 0, 4, 2, 1]]))
    assert candidates_of.chains(candidates).tolist() == [[-1, 3, 0, -1, -1]]


@settings(max_examples=30)
@given(problems(), SEEDS)
def test_schedules_are_candidates(problem, seed):
    candidates = random_candidates(problem, 3, seed)
    again = candidates_of.from_schedules(schedules_of(problem, candidates))
    assert again.placement.dtype == again.sequence.dtype == np.int32
    assert again.placement.tolist() == candidates.placement.tolist()
    assert again.sequence.tolist() == candidates.sequence.tolist()


@settings(max_examples=100)
@given(problems(free=True), SEEDS, st.booleans())
def test_planned_starts_are_kept_or_improved_upon(problem, seed, at_random):
    """Plans: the earliest starts of schedules, delayed."""
    graph, rng = problem.graph, np.random.default_rng(seed)
    schedules = schedules_of(problem, random_candidates(problem, 3, seed))
    plans = np.stack([checker.start_times(graph, s, problem.platform) for s in schedules])
    found = candidates_of.from_starts(graph, plans, problem.num_devices, rng if at_random else None)
    for plan, schedule in zip(plans, schedules_of(problem, found), strict=True):
        assert np.all(checker.evaluate(graph, schedule).start <= plan)
    ends = (plans + graph.duration).max(axis=1)
    assert np.all(candidates_of.makespans(problem, found) <= ends)


INDEPENDENT = ComputationGraph.create(
    num_ops=4, producer=[], size=[], consumers=[], duration=[2, 1, 1, 1]
)


def test_the_first_free_device_or_any():
    start = np.array([[0.0, 0.0, 1.0, 2.0]])
    first = candidates_of.from_starts(INDEPENDENT, start, 3)
    assert first.sequence.tolist() == [[1, 0, 2, 3]]
    assert first.placement.tolist() == [[1, 0, 0, 0]]
    many = np.repeat(start, 200, axis=0)
    drawn = candidates_of.from_starts(INDEPENDENT, many, 3, np.random.default_rng(0))
    assert set(map(tuple, drawn.placement[:, :2].tolist())) == {
        (a, b) for a in range(3) for b in range(3) if a != b
    }
    assert {tuple(row) for row in drawn.placement[:, 2:].tolist()} == {
        (a, b) for a in range(3) for b in range(3)
    }


def test_more_ops_at_once_than_devices_are_an_error():
    start = np.array([[0.0, 0.0, 2.0, 3.0], [0.0, 0.0, 1.0, 1.0]])
    assert candidates_of.from_starts(INDEPENDENT, start[:1], 2)
    with pytest.raises(ScheduleError, match="plan 1 runs more than 2 ops at once"):
        candidates_of.from_starts(INDEPENDENT, start, 2)


CHAIN = ComputationGraph.create(num_ops=2, producer=[0], size=[1], consumers=[[1]])


@pytest.mark.parametrize(
    ("placement", "sequence", "message"),
    [
        ([[0, 0], [0, 0]], [[0, 1], [1, 0]], "candidate 1: .* before its producer"),
        ([[0, 0]], [[0, 0]], "candidate 0: the sequence repeats an op"),
        ([[0, 0]], [[1, 1]], "candidate 0: the sequence repeats an op"),
        ([[0, 2]], [[0, 1]], r"not in 0\.\.1"),
        ([[0, -1]], [[0, 1]], r"not in 0\.\.1"),
        ([[0, 0]], [[0, 2]], r"not in 0\.\.1"),
        ([[0, 0]], [[0]], r"shape \(1, 1\), not \(1, 2\)"),
        ([[0, 0], [0, 0]], [[0, 1]], r"shape \(2, 2\), not \(1, 2\)"),
    ],
)
def test_what_is_no_schedule_is_an_error(placement, sequence, message):
    problem = PlacementProblem(CHAIN, 2, "makespan")
    candidates = Candidates(np.array(placement, np.int32), np.array(sequence, np.int32))
    with pytest.raises(ScheduleError, match=message):
        candidates_of.makespans(problem, candidates)


def test_options_out_of_range():
    candidates = Candidates(np.zeros((1, 2), np.int32), np.array([[0, 1]], np.int32))
    problem = PlacementProblem(CHAIN, 2, "makespan")
    assert len(candidates_of.best_schedules(problem, candidates, 100)) == 1
    with pytest.raises(OptionError, match="count must be at least 1"):
        candidates_of.best_schedules(problem, candidates, 0)
    with pytest.raises(OptionError, match="the objective makespan, not peak_memory"):
        candidates_of.best_schedules(PlacementProblem(CHAIN, 2), candidates, 1)


def test_a_graph_without_ops():
    graph = ComputationGraph.create(num_ops=0, producer=[], size=[], consumers=[])
    problem = PlacementProblem(graph, 2, "makespan")
    candidates = Candidates(np.zeros((3, 0), np.int32), np.zeros((3, 0), np.int32))
    assert candidates_of.makespans(problem, candidates).tolist() == [0.0, 0.0, 0.0]
    (only,) = candidates_of.best_schedules(problem, candidates, 5)
    assert only.makespan == 0.0

"""CP-SAT on machine problems: optimal on tiny ones, its bounds, warm starts and limits."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.errors import GraphError, MissingDependencyError, OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.cp_sat import rcpsp, solver
from regal_jax.search.rcpsp import rules
from tests.search.rcpsp.cases import (
    FT06,
    check_valid,
    job_shop,
    least_makespan,
    random_machines,
    tiny_machines,
)

pytest.importorskip("ortools")

TINY = settings(max_examples=50, deadline=None)
ENOUGH = 60.0
"""Seconds; tiny graphs take a hundredth of one."""


def check(graph, solution):
    check_valid(graph, solution.start)
    assert solution.makespan == np.max(solution.start + graph.duration)
    assert solution.bound <= solution.makespan
    seconds, makespans, bounds = zip(*solution.history, strict=True)
    assert list(seconds) == sorted(seconds)
    assert list(makespans) == sorted(makespans, reverse=True)
    assert list(bounds) == sorted(bounds)
    assert makespans[-1] == solution.makespan


@TINY
@given(tiny_machines)
def test_least_makespan(graph):
    solution = rcpsp.solve(graph, seconds=ENOUGH)
    check(graph, solution)
    assert solution.makespan == least_makespan(graph) == solution.bound
    assert solution.optimal


@TINY
@given(tiny_machines, st.sampled_from([0.1, 1 / 3, 1e-9, 1e12, 0.25]))
def test_times_that_are_not_whole(graph, factor):
    """Where times are rounded, the bound holds to the last bit."""
    scaled = graph.replace(duration=graph.duration * factor)
    solution = rcpsp.solve(scaled, seconds=ENOUGH)
    check(scaled, solution)
    least = least_makespan(scaled)
    assert solution.bound <= least <= solution.makespan
    assert solution.optimal
    assert solution.makespan == pytest.approx(least, rel=rcpsp.ROUNDING)


def test_ft06():
    solution = rcpsp.solve(FT06, seconds=ENOUGH)
    check(FT06, solution)
    assert (solution.makespan, solution.bound, solution.optimal) == (55, 55, True)


@pytest.mark.parametrize("demand", [2, 3])
def test_large_demands_do_not_overlap(demand):
    """Four ops of 5 us on 3 units: no two fit together, whatever the area says."""
    graph = ComputationGraph.create(
        num_ops=4,
        producer=[],
        size=[],
        consumers=[],
        duration=[5] * 4,
        demand=[demand] * 4,
        capacity=[3],
    )
    solution = rcpsp.solve(graph, seconds=ENOUGH)
    assert (solution.makespan, solution.bound, solution.optimal) == (20, 20, True)


@pytest.mark.parametrize("whole", [True, False])
def test_never_longer_than_its_warm_start(whole):
    graph = random_machines(3, 60, whole=whole)
    problem = MachineProblem(graph)
    for rule in ("spt", "critical_path"):
        genes = rules.genes(rules.RULES[rule](graph))
        given_start = problem.decode(genes)
        for seconds in (0.0, 1.0):
            solution = rcpsp.solve(graph, seconds=seconds, start=given_start.start)
            check(graph, solution)
            assert solution.history[0][1] <= given_start.makespan
    assert solution.makespan <= given_start.makespan


def test_a_warm_start_is_hinted_whole():
    """A time limit too short to search in still finds the hint's order, in units."""
    from ortools.sat.python import cp_model

    graph = random_machines(5, 40)
    start = MachineProblem(graph).starts(np.zeros((1, 40), np.float32))[0]
    pairs = np.zeros((0, 2), int)
    model = rcpsp._build_model(cp_model.CpModel(), graph, pairs, start)
    hint = model.program.proto.solution_hint
    assert len(hint.vars) == len(set(hint.vars)) == 41
    hinted = np.array(hint.values)
    check_valid(graph, hinted[:40].astype(float))
    assert hinted[40] == np.max(hinted[:40] + graph.duration)


def test_progress_is_reported():
    seen = []
    solution = rcpsp.solve(FT06, seconds=ENOUGH, on_change=lambda *now: seen.append(now))
    assert tuple(seen) == solution.history


def test_one_seed_gives_one_schedule():
    rng = np.random.default_rng(0)
    machine = np.stack([rng.permutation(4) for _ in range(5)])
    graph = job_shop(machine, rng.integers(1, 20, machine.shape))
    first, again = (rcpsp.solve(graph, seconds=ENOUGH, seed=4) for _ in range(2))
    assert first.optimal
    np.testing.assert_array_equal(first.start, again.start)


def test_too_large_a_model_gives_the_warm_start_and_a_bound(monkeypatch):
    monkeypatch.setattr(solver, "MAX_CONSTRAINTS", 50)
    solution = rcpsp.solve(FT06, seconds=ENOUGH)
    check(FT06, solution)
    assert solution.bound == MachineProblem(FT06).lower_bound
    assert not solution.optimal


@pytest.mark.parametrize(
    ("options", "message"),
    [({"seconds": -1.0}, "seconds"), ({"seconds": 1.0, "workers": 0}, "workers")],
)
def test_options_out_of_range(options, message):
    with pytest.raises(OptionError, match=message):
        rcpsp.solve(FT06, **options)


def test_an_op_that_fits_nowhere():
    with pytest.raises(GraphError, match="op 1"):
        rcpsp.solve(FT06.replace(demand=np.eye(36, dtype=int)[1] + 1), seconds=1.0)


def test_missing_ortools(monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(MissingDependencyError, match=r"regal_jax\[solvers\]"):
        rcpsp.solve(FT06, seconds=1.0)

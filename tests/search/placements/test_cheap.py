"""Cheap schedules: simple orders times simple placements."""

import time

import pytest
from hypothesis import given

import regal_jax as rj
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.methods import simple
from regal_jax.options import Budget
from regal_jax.search.placements import partitioning
from regal_jax.search.placements.cheap import cheap_schedules
from tests.environments.test_goldens import GOLDENS
from tests.strategies import computation_graphs


@given(computation_graphs(max_ops=6))
def test_cheap_schedules_are_valid_and_differ(graph):
    schedules = list(cheap_schedules(graph, 2, "peak_memory"))
    for schedule in schedules:
        rj.evaluate(graph, schedule)
    seen = {(each.placement.tobytes(), each.steps.tobytes()) for each in schedules}
    assert len(seen) == len(schedules) >= 1


def test_a_deadline_that_is_over_leaves_the_first(monkeypatch):
    graph = rj.load_graph(GOLDENS / "placement.json")
    problem = PlacementProblem.on(graph, Platform(2), "makespan")
    late = Budget(evaluations=100, deadline=time.perf_counter())
    monkeypatch.setattr(partitioning, "kernighan_lin", lambda *_, **__: pytest.fail("too late"))
    assert simple.cheapest(problem, late).evaluations == 1

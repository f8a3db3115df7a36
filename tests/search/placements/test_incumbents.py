"""The incumbent of a graph: the best of its cheap schedules, and what a policy is told of it."""

import numpy as np
import pytest
from hypothesis import given

import regal_jax as rj
from regal_jax.environments.schedule import Schedule
from regal_jax.search.placements import incumbents
from regal_jax.search.placements.cheap import cheap_schedules, most_schedules
from tests.policies.cases import random_graph
from tests.strategies import computation_graphs


@pytest.mark.parametrize("objective", ["peak_memory", "makespan"])
@pytest.mark.parametrize("num_devices", [1, 2, 3])
def test_the_incumbent_is_the_best_of_the_cheap_schedules(objective, num_devices):
    graph = random_graph(3, 12)
    problem = rj.PlacementProblem(graph, num_devices, objective)
    schedule, cost = incumbents.cheap_incumbent(problem)
    schedules = cheap_schedules(graph, num_devices, objective)
    costs = [problem.costed(each).cost for each in schedules]
    assert cost == problem.costed(schedule).cost == min(costs)


@given(computation_graphs(max_ops=6))
def test_cheap_schedules_are_valid_and_differ(graph):
    schedules = cheap_schedules(graph, 2, "peak_memory")
    for schedule in schedules:
        rj.evaluate(graph, schedule)
    seen = {(each.placement.tobytes(), each.steps.tobytes()) for each in schedules}
    assert len(seen) == len(schedules) >= 1


@pytest.mark.parametrize("num_devices", [1, 2, 4])
def test_all_orders_and_placements_are_tried_and_charged(num_devices):
    """The best is often of the last rule, and a graph of 200 ops has all of them."""
    schedules = cheap_schedules(random_graph(1, 200), num_devices, "peak_memory")
    assert len(schedules) <= most_schedules(num_devices) <= 1.5 * len(schedules)


def test_features_by_hand():
    """Ops run 2, 0, 1 on devices 0, 2, 1; op 0 is pinned, so devices 0 and 2 change names."""
    schedule = Schedule(
        graph="g",
        objective="makespan",
        num_devices=3,
        placement=np.array([2, 1, 0]),
        steps=np.array([2, 0, 1]),
    )
    features = incumbents.incumbent_features(schedule, 0, 0.25)
    expected = [
        [1, 0, 0, 0.5, 0.25],
        [0, 1, 0, 1.0, 0.25],
        [0, 0, 1, 0.0, 0.25],
    ]
    np.testing.assert_allclose(features, expected)
    assert incumbents.incumbent_features(schedule, 2, -7.0)[:, -1].tolist() == [-1.0] * 3
    assert incumbents.incumbent_features(schedule, 2, 0.0)[2, 0] == 1.0


def test_features_of_a_graph_without_ops():
    empty = Schedule(
        graph="g",
        objective="makespan",
        num_devices=2,
        placement=np.zeros(0, np.int32),
        steps=np.zeros(0, np.int64),
    )
    assert incumbents.incumbent_features(empty, 0, 0.0).shape == (0, 4)

"""Cheap schedules: simple orders times simple placements."""

from hypothesis import given

import regal_jax as rj
from regal_jax.search.placements.cheap import cheap_schedules
from tests.strategies import computation_graphs


@given(computation_graphs(max_ops=6))
def test_cheap_schedules_are_valid_and_differ(graph):
    schedules = cheap_schedules(graph, 2, "peak_memory")
    for schedule in schedules:
        rj.evaluate(graph, schedule)
    seen = {(each.placement.tobytes(), each.steps.tobytes()) for each in schedules}
    assert len(seen) == len(schedules) >= 1

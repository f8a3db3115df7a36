"""Lifetimes of tensors against the checker, which counts bytes by executing the schedule."""

import numpy as np
from hypothesis import given

from regal_jax.environments.placement import checker
from regal_jax.reporting.lifetimes import lifetimes
from tests.reporting.cases import hand_graph, hand_schedule, scheduled_graphs


def test_by_hand():
    copies = sorted(
        zip(*(column.tolist() for column in lifetimes(hand_graph(), hand_schedule())), strict=True)
    )
    assert copies == [
        (0, 0, 0, 6),  # w stays
        (1, 0, 1, 3),  # x, until b has run
        (1, 1, 2, 4),  # x on device 1, from its transfer until c has run
        (2, 0, 3, 6),
        (3, 0, 5, 6),
        (3, 1, 4, 5),
    ]


@given(scheduled_graphs())
def test_they_add_up_to_what_the_checker_counts(case):
    graph, schedule, _ = case
    expected = checker.memory_timeline(graph, schedule).usage
    usage = np.zeros_like(expected)
    for tensor, device, first, last in zip(*lifetimes(graph, schedule), strict=True):
        usage[first : last + 1, device] += graph.size[tensor]
    for row, step in enumerate(schedule.steps.tolist(), 1):
        if step < graph.num_ops:
            usage[row, schedule.placement[step]] += graph.workspace[step]
    assert np.array_equal(usage, expected)

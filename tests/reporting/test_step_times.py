"""Clocks: serial is end to end in schedule order, parallel is the makespan model."""

import numpy as np
import pytest
from hypothesis import given, settings

from regal_jax.environments.placement import checker
from regal_jax.environments.platform import Platform
from regal_jax.errors import ScheduleError
from regal_jax.reporting.step_times import describe_steps, memory_change_times, step_times
from tests.reporting.cases import SLOW_LINKS, hand_graph, hand_schedule, scheduled_graphs


def test_serial_by_hand():
    times = step_times(hand_graph(), hand_schedule(), SLOW_LINKS)
    assert times.start.tolist() == [0, 2, 12.5, 15.5, 19.5, 22]
    assert times.finish.tolist() == [2, 12.5, 15.5, 19.5, 22, 23]


def test_free_transfers_are_slivers_in_serial_time():
    times = step_times(hand_graph(), hand_schedule())
    width = 2.5 / 20  # a twentieth of the mean of 2, 3, 4, 1
    np.testing.assert_allclose(times.finish - times.start, [2, width, 3, 4, width, 1])


def test_parallel_by_hand():
    times = step_times(hand_graph(), hand_schedule(), SLOW_LINKS, clock="parallel")
    assert times.start.tolist() == [0, 2, 2, 12.5, 16.5, 19]
    assert times.finish.tolist() == [2, 12.5, 5, 16.5, 19, 20]


def test_steps_are_decoded():
    steps = describe_steps(hand_graph(), hand_schedule())
    assert steps.op.tolist() == [0, 0, 1, 2, 2, 3]
    assert steps.tensor.tolist() == [-1, 1, -1, -1, 3, -1]
    assert steps.source.tolist() == [0, 0, 0, 1, 1, 0]
    assert steps.target.tolist() == [0, 1, 0, 1, 0, 0]


def test_another_number_of_devices_is_rejected():
    with pytest.raises(ScheduleError, match="num_devices"):
        step_times(hand_graph(), hand_schedule(), Platform(3))


def test_capacity_does_not_matter():
    limited = step_times(hand_graph(), hand_schedule(), Platform(2, memory_capacity=1))
    unlimited = step_times(hand_graph(), hand_schedule(), Platform(2))
    np.testing.assert_array_equal(limited.start, unlimited.start)
    np.testing.assert_array_equal(limited.finish, unlimited.finish)


@settings(max_examples=40)
@given(scheduled_graphs())
def test_parallel_ends_at_the_makespan_and_memory_changes_in_order(case):
    graph, schedule, platform = case
    times = step_times(graph, schedule, platform, clock="parallel")
    is_op = describe_steps(graph, schedule).tensor < 0
    assert times.finish[is_op].max() == checker.evaluate(graph, schedule, platform).makespan
    steps = describe_steps(graph, schedule)
    changes = memory_change_times(steps, times, schedule.num_devices)
    assert np.all(np.diff(changes, axis=0) >= 0)
    assert np.all(changes[np.arange(len(is_op)), steps.target] >= times.start)

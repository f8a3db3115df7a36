"""The trace of a schedule on machine types: one process a type, with a counter of its units in use.

Types of few units have a thread a unit, and ops an event on each of their units; on the others, ops
are on as few threads as they can be without overlap. Ops that take no units, having no demand or no
duration, are on threads of their own.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from regal_jax.environments.rcpsp.checker import evaluate_machines
from regal_jax.environments.schedule import Schedule
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import chrome_trace
from regal_jax.reporting.chrome_trace import FIRST_THREAD, Event
from regal_jax.reporting.lanes import (
    UNITS_SHOWN,
    Lanes,
    op_times,
    ops_of_type,
    rows_of,
    units_in_use,
    units_of,
)

COUNTER = "units in use"


def machine_trace(graph: ComputationGraph, schedule: Schedule) -> dict[str, Any]:
    """The trace of a schedule of a graph with capacities. Raises ScheduleError if it is invalid."""
    evaluate_machines(graph, schedule)
    names: list[Event] = []
    events: list[Event] = []
    for machine in range(schedule.num_devices):
        ops = ops_of_type(graph, schedule, machine)
        capacity = _capacity(graph, machine)
        by_unit = capacity <= UNITS_SHOWN
        busy = (units_of if by_unit else rows_of)(graph, schedule, ops.busy)
        unitless = rows_of(graph, schedule, ops.unitless)
        threads = [f"unit {u}" for u in range(capacity)] if by_unit else ["ops"] * busy.num_lanes
        beside = Lanes(unitless.op, unitless.lane + len(threads))
        threads += ["no units"] * unitless.num_lanes
        names += chrome_trace.process(
            machine, f"machine type {machine}", enumerate(threads, FIRST_THREAD)
        )
        events += _slices(graph, schedule, machine, busy)
        events += _slices(graph, schedule, machine, beside)
        events += _counter(graph, schedule, machine, ops.busy)
    return chrome_trace.document(graph, schedule, "parallel", names, events)


def _capacity(graph: ComputationGraph, machine: int) -> int:
    assert graph.capacity is not None
    return int(graph.capacity[machine])


def _slices(
    graph: ComputationGraph, schedule: Schedule, machine: int, lanes: Lanes
) -> Iterator[Event]:
    """One complete event for each lane of each op."""
    start, finish = map(chrome_trace.nanoseconds, op_times(graph, schedule))
    for op, lane in zip(lanes.op.tolist(), lanes.lane.tolist(), strict=True):
        place = chrome_trace.lasting(start[op], finish[op], machine, FIRST_THREAD + lane)
        yield place | chrome_trace.op_details(graph, op, demand=int(graph.demand[op]))


def _counter(
    graph: ComputationGraph, schedule: Schedule, machine: int, busy: np.ndarray
) -> Iterator[Event]:
    """Units in use where they change; the last value within a nanosecond counts."""
    start, finish = op_times(graph, schedule)
    group = np.zeros(len(busy), np.int64)
    used = units_in_use(start[busy], finish[busy], graph.demand[busy], group, 1)
    moments = chrome_trace.nanoseconds(used.times).tolist()
    values = {0: 0} | dict(zip(moments, used.units[0].tolist(), strict=True))
    return chrome_trace.counter(machine, COUNTER, "units", values)

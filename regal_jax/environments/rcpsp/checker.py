"""The stand-alone checker of machine problems: is a schedule valid, and how long does it take?

It shares no code with the kernels that make schedules, so that one can be held against the other.
"""

import numpy as np

from regal_jax.environments.schedule import Schedule
from regal_jax.errors import ScheduleError
from regal_jax.graphs.computation_graph import ComputationGraph


def evaluate_machines(graph: ComputationGraph, schedule: Schedule) -> float:
    """Validates a schedule of a graph with capacities; returns its exact makespan.

    Each op must be placed on its own machine type, be one of the steps, which go by start time, and
    start after the producers of all it reads have ended. The ops of a type that run at one time may
    demand its capacity at most; they run from their start until just before their end, so what ends
    at a time frees its units for what starts then, and an op of no duration takes none.

    Args:
      graph: the graph the schedule belongs to.
      schedule: placement, steps and start times; the makespan it claims is not looked at.

    Raises:
      ScheduleError: naming the op and the time at fault.
    """
    if graph.capacity is None:
        raise ScheduleError(f"graph {graph.name!r} has no capacity to hold the schedule to")
    start = _checked_starts(graph, schedule)
    _check_placement(graph, schedule)
    _check_steps(graph, schedule, start)
    end = start + graph.duration
    _check_precedence(graph, start, end)
    for machine in range(len(graph.capacity)):
        _check_units(graph, machine, start, end)
    return float(end.max(initial=0.0))


def _checked_starts(graph: ComputationGraph, schedule: Schedule) -> np.ndarray:
    if schedule.start is None:
        raise ScheduleError("start: is required for a graph with capacities")
    start = np.asarray(schedule.start, np.float64)
    if start.shape != (graph.num_ops,):
        raise ScheduleError(f"start: has {start.size} entries for {graph.num_ops} ops")
    bad = np.flatnonzero(~(np.isfinite(start) & (start >= 0)))
    if bad.size:
        raise ScheduleError(f"start: op {bad[0]} starts at {start[bad[0]]}, no time from 0 on")
    return start


def _check_placement(graph: ComputationGraph, schedule: Schedule) -> None:
    num_types = len(graph.capacity)  # type: ignore[arg-type]
    if schedule.num_devices != num_types:
        raise ScheduleError(
            f"num_devices: the schedule has {schedule.num_devices}, the graph {num_types} types"
        )
    if schedule.placement.shape != (graph.num_ops,):
        raise ScheduleError(
            f"placement: has {schedule.placement.size} entries for {graph.num_ops} ops"
        )
    off = np.flatnonzero(schedule.placement != graph.machine_type)
    if off.size:
        op = int(off[0])
        raise ScheduleError(
            f"placement: op {op} is on machine type {schedule.placement[op]},"
            f" it needs type {graph.machine_type[op]}"
        )


def _check_steps(graph: ComputationGraph, schedule: Schedule, start: np.ndarray) -> None:
    steps = schedule.steps
    outside = steps[(steps < 0) | (steps >= graph.num_ops)]
    if outside.size:
        raise ScheduleError(f"steps: {outside[0]} is not one of the {graph.num_ops} ops")
    times = np.bincount(steps, minlength=graph.num_ops)
    wrong = np.flatnonzero(times != 1)
    if wrong.size:
        op = int(wrong[0])
        raise ScheduleError(f"steps: op {op} {'runs twice' if times[op] else 'never runs'}")
    back = np.flatnonzero(np.diff(start[steps]) < 0)
    if back.size:
        op, before = int(steps[back[0] + 1]), int(steps[back[0]])
        raise ScheduleError(
            f"steps: op {op}, which starts at {start[op]}, comes after op {before},"
            f" which starts at {start[before]}"
        )


def _check_precedence(graph: ComputationGraph, start: np.ndarray, end: np.ndarray) -> None:
    before, after = graph.edges[:, 0], graph.edges[:, 2]
    early = np.flatnonzero(start[after] < end[before])
    if early.size:
        producer, op = int(before[early[0]]), int(after[early[0]])
        raise ScheduleError(
            f"start: op {op} starts at {start[op]}, before op {producer}, whose output it reads,"
            f" ends at {end[producer]}"
        )


def _check_units(graph: ComputationGraph, machine: int, start, end) -> None:
    """Sweeps over the starts and ends of a type's ops, at each time the ends first."""
    capacity = int(graph.capacity[machine])  # type: ignore[index]
    ops = np.flatnonzero(graph.machine_type == machine)
    over = ops[graph.demand[ops] > capacity]
    if over.size:
        op = int(over[0])
        raise ScheduleError(
            f"start: op {op} at {start[op]} demands {graph.demand[op]} units of machine type"
            f" {machine}, which has {capacity}"
        )
    demand, used = graph.demand.tolist(), 0
    busy = ops[end[ops] > start[ops]].tolist()
    events = [(end[op], 0, op) for op in busy] + [(start[op], 1, op) for op in busy]
    for time, is_start, op in sorted(events):
        used += demand[op] if is_start else -demand[op]
        if used > capacity:
            raise ScheduleError(
                f"start: op {op} starts at {time}, when {used - demand[op]} of the {capacity} units"
                f" of machine type {machine} are in use; it demands {demand[op]}"
            )

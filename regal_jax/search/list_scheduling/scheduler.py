"""List scheduling for makespan: what a heuristic makes of tasks, and the way back to a schedule.

A list heuristic maps a ``TaskGraph`` and a number of identical devices to a ``Timetable``;
``to_schedule`` makes it a schedule. Memory capacities are ignored here: a caller that has one must
penalise schedules beyond it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from regal_jax.environments.placement.tasks import TaskGraph
from regal_jax.environments.schedule import Schedule
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.orders import rules


class Timetable(NamedTuple):
    """A heuristic's plan, by task: device int64[O], and start float64[O] in us."""

    place: np.ndarray
    start: np.ndarray


Heuristic = Callable[[TaskGraph, int], Timetable]
"""(tasks, number of devices) -> timetable."""


def to_schedule(
    graph: ComputationGraph, tasks: TaskGraph, timetable: Timetable, num_devices: int
) -> Schedule:
    """The schedule that runs tasks by their start, so each device in the order it has been planned.

    Its makespan is at most the timetable's: what was idle without need is closed up. Of tasks that
    start together, one that takes no time goes first, then by topological position: it may be the
    other's producer, or fill a gap of no length before it. Costs are not filled in.
    """
    sequence = np.lexsort((timetable.start + tasks.duration, timetable.start))
    placement = np.empty(graph.num_ops, np.int32)
    placement[tasks.op] = timetable.place
    return rules.build_schedule(
        graph,
        tasks.op[sequence].astype(np.int32),
        placement,
        objective="makespan",
        num_devices=num_devices,
    )

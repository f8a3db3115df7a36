"""What runs side by side: lanes in which nothing overlaps, and units in use over time.

An interval of time lasts from its start until just before its finish, so that what starts at a
time follows what ends then.
"""

import heapq
from typing import NamedTuple

import numpy as np

from regal_jax.environments.schedule import Schedule
from regal_jax.graphs.computation_graph import ComputationGraph

UNITS_SHOWN = 16
"""Machine types of more units are not shown unit by unit."""


class Lanes(NamedTuple):
    """Ops beside each other; an op on several lanes has as many entries: int64[K] each."""

    op: np.ndarray
    lane: np.ndarray

    @property
    def num_lanes(self) -> int:
        return int(self.lane.max(initial=-1)) + 1


class TypeOps(NamedTuple):
    """The ops of a machine type: int64 each, those that take units for a time, and those that take
    none, having no demand or no duration."""

    busy: np.ndarray
    unitless: np.ndarray


class UnitsInUse(NamedTuple):
    """Units in use by group from each time until the next; none from the last one on.

    Attributes:
      times: float64[K], rising. units: int64[G, K].
    """

    times: np.ndarray
    units: np.ndarray


def ops_of_type(graph: ComputationGraph, schedule: Schedule, machine: int) -> TypeOps:
    """The ops of a machine type, by index, in a schedule with start times."""
    start, finish = op_times(graph, schedule)
    mine = graph.machine_type == machine
    takes_units = (graph.demand > 0) & (finish > start)
    return TypeOps(np.flatnonzero(mine & takes_units), np.flatnonzero(mine & ~takes_units))


def op_times(graph: ComputationGraph, schedule: Schedule) -> tuple[np.ndarray, np.ndarray]:
    """(start, finish) of each op on its machine type: float64[O], us."""
    assert schedule.start is not None
    return schedule.start, schedule.start + graph.duration


def units_of(graph: ComputationGraph, schedule: Schedule, ops: np.ndarray) -> Lanes:
    """Each op on as many units of its type as it demands, the lowest free ones at its start."""
    return _lanes_of(graph, schedule, ops, graph.demand[ops])


def rows_of(graph: ComputationGraph, schedule: Schedule, ops: np.ndarray) -> Lanes:
    """Each op on one lane, whatever it demands, the lowest free one at its start."""
    return _lanes_of(graph, schedule, ops, np.ones(len(ops), np.int64))


def _lanes_of(graph: ComputationGraph, schedule: Schedule, ops, count: np.ndarray) -> Lanes:
    start, finish = op_times(graph, schedule)
    interval, lane = assign_lanes(start[ops], finish[ops], count)
    return Lanes(ops[interval], lane)


def assign_lanes(
    start: np.ndarray, finish: np.ndarray, count: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Puts intervals, by start, each on the lowest ``count`` lanes that are free then.

    There are never more lanes than the most intervals at one time need.

    Args:
      start, finish: [N], in any unit. count: int64[N].

    Returns:
      (interval, lane): int64[K] each, one entry for each lane of each interval.
    """
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    interval, lane, num_lanes = [], [], 0
    for index in np.argsort(start, kind="stable").tolist():
        while busy and busy[0][0] <= start[index]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        for _ in range(int(count[index])):
            if not free:
                free.append(num_lanes)
                num_lanes += 1
            taken = heapq.heappop(free)
            heapq.heappush(busy, (finish[index], taken))
            interval.append(index)
            lane.append(taken)
    return np.array(interval, np.int64), np.array(lane, np.int64)


def units_in_use(
    start: np.ndarray, finish: np.ndarray, demand: np.ndarray, group: np.ndarray, num_groups: int
) -> UnitsInUse:
    """Adds up the demands of intervals [N] at all times, by group int[N]."""
    times, place = np.unique(np.concatenate([start, finish]), return_inverse=True)
    change = np.zeros((num_groups, len(times)), np.int64)
    np.add.at(change, (np.tile(group, 2), place), np.concatenate([demand, -demand]))
    return UnitsInUse(times, np.cumsum(change, axis=1))

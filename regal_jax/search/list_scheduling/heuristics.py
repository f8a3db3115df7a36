"""Classical list heuristics for makespan on identical devices: HEFT, CPOP, ETF, HBMCT and
critical-path list scheduling.

An edge that crosses devices costs ``latency + bytes * per_byte``. All ignore memory capacities.
Ties that the papers break at random go to the lowest topological position and the lowest device.
"""

import functools
from collections.abc import Callable

import numpy as np

from regal_jax.environments.placement.tasks import (
    TaskGraph,
    downward_ranks,
    task_graph,
    upward_ranks,
)
from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Schedule
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.list_scheduling import kernels
from regal_jax.search.list_scheduling import scheduler as lists
from regal_jax.search.list_scheduling.scheduler import Heuristic, Timetable


def _scheduled(heuristic: Heuristic) -> Callable[[ComputationGraph, Platform], Schedule]:
    """(graph, platform) -> the schedule of a heuristic's timetable."""

    @functools.wraps(heuristic)
    def schedule(graph: ComputationGraph, platform: Platform) -> Schedule:
        tasks = task_graph(graph, platform)
        timetable = heuristic(tasks, platform.num_devices)
        return lists.to_schedule(graph, tasks, timetable, platform.num_devices)

    return schedule


@_scheduled
def heft(tasks: TaskGraph, num_devices: int) -> Timetable:
    """Heterogeneous earliest finish time (Topcuoglu, Hariri, Wu 2002, fig. 2).

    By decreasing upward rank, each op goes into the earliest gap that holds it. The rank's mean
    communication cost is, as in the paper, the mean over links: here the cost of any one.
    """
    order = _decreasing(upward_ranks(tasks))
    anywhere = np.full(len(order), -1)
    return Timetable(*kernels.insert_in_order(tasks, order, anywhere, num_devices))


@_scheduled
def cpop(tasks: TaskGraph, num_devices: int) -> Timetable:
    """Critical path on a processor (Topcuoglu, Hariri, Wu 2002, fig. 4).

    The ready op of highest rank_u + rank_d is next. Ops of one critical path go to the last device
    (all are as fast; ties, which go to the lowest, then leave it alone), the others into the
    earliest gap. With several entries, the path begins at the one of highest rank.
    """
    upward = upward_ranks(tasks)
    rank = np.argsort(_decreasing(upward + downward_ranks(tasks)))
    pinned = np.full(len(rank), -1)
    pinned[_longest_path(tasks, upward)] = num_devices - 1
    order = kernels.order_of_ready(tasks, rank)
    return Timetable(*kernels.insert_in_order(tasks, order, pinned, num_devices))


@_scheduled
def etf(tasks: TaskGraph, num_devices: int) -> Timetable:
    """Earliest task first (Hwang, Chow, Anger, Lee 1989).

    Of all ready ops and devices the pair with the earliest start; ties by static level: the longest
    path of durations from the op on. An op is ready when its producers have been scheduled, which
    gives the same schedule as the paper's two clocks: no op starts before one that makes it ready.
    """
    return Timetable(*kernels.earliest_task_first(tasks, _by_static_level(tasks), num_devices))


@_scheduled
def hbmct(tasks: TaskGraph, num_devices: int) -> Timetable:
    """Hybrid heuristic with balanced minimum completion time (Sakellariou, Zhao 2004).

    Ops by decreasing upward rank are cut into groups of independent ones; a group follows those
    before it on every device (no insertion). In a group, tasks of a device run by when they could
    start; one task at a time leaves the device that finishes last for the one that then finishes
    first, while this helps.

    Deviation: the paper begins with each task where it runs fastest. Identical devices tie in this,
    so each goes, by rank, to the device that then finishes first.
    """
    order = _decreasing(upward_ranks(tasks))
    return Timetable(*kernels.balanced_groups(tasks, order, num_devices))


@_scheduled
def critical_path(tasks: TaskGraph, num_devices: int) -> Timetable:
    """Graham's list scheduling by the longest path of durations from each op on.

    Whenever a device is idle, the ready op (its producers have ended) of highest level goes to the
    device where it can start first, idle or not. Without communication no device idles while an op
    is ready, so that the makespan is at most 2 - 1/D times the least (Graham 1969), and the
    schedule is that of ``etf``.
    """
    return Timetable(*kernels.highest_priority_first(tasks, _by_static_level(tasks), num_devices))


HEURISTICS = {
    "heft": heft,
    "cpop": cpop,
    "etf": etf,
    "hbmct": hbmct,
    "critical_path": critical_path,
}
"""(graph, platform) -> schedule, by name."""


def _decreasing(values: np.ndarray) -> np.ndarray:
    """int64[O]: tasks by decreasing value, the lowest first on ties."""
    return np.argsort(-values, kind="stable")


def _by_static_level(tasks: TaskGraph) -> np.ndarray:
    """int64[O]: the place of each task among all, by its longest path of durations."""
    without_delay = tasks._replace(delay=np.zeros_like(tasks.delay))
    return np.argsort(_decreasing(upward_ranks(without_delay)))


def _longest_path(tasks: TaskGraph, upward: np.ndarray) -> list[int]:
    """Tasks of the path that gives the highest upward rank, from its entry to its exit."""
    path = [int(np.argmax(upward))] if len(upward) else []
    while path:
        edges = slice(*tasks.offsets[path[-1] : path[-1] + 2])
        if edges.start == edges.stop:
            break
        after = tasks.after[edges]
        path.append(int(after[np.argmax(tasks.delay[edges] + upward[after])]))
    return path

"""List scheduling for makespan: a graph as tasks with delays, their ranks, and the way back.

A list heuristic maps a ``TaskGraph`` and a number of identical devices to a ``Timetable``;
``to_schedule`` makes it a schedule. Memory capacities are ignored here: a caller that has one must
penalise schedules beyond it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Schedule
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.native.compilation import jit_with_arrays
from regal_jax.search.orders import rules


class TaskGraph(NamedTuple):
    """The ops of a graph by topological position: task i is op ``op[i]``, every edge points up.

    Attributes:
      op: int64[O].
      duration: float64[O], us.
      offsets: int64[O + 1]. after: int64[E]. The successors of task i, each once, are
        ``after[offsets[i]:offsets[i + 1]]``.
      delay: float64[E], us from the end of a task until the last of its tensors that the successor
        reads has arrived, if that is on another device.
    """

    op: np.ndarray
    duration: np.ndarray
    offsets: np.ndarray
    after: np.ndarray
    delay: np.ndarray


class Timetable(NamedTuple):
    """A heuristic's plan, by task: device int64[O], and start float64[O] in us."""

    place: np.ndarray
    start: np.ndarray


Heuristic = Callable[[TaskGraph, int], Timetable]
"""(tasks, number of devices) -> timetable."""


def task_graph(graph: ComputationGraph, platform: Platform) -> TaskGraph:
    """The tasks of a graph, with the platform's delays ``latency + bytes * per_byte``."""
    num_ops, position = graph.num_ops, graph.position
    producer, tensor, consumer = graph.edges.T
    key = position[producer] * num_ops + position[consumer]
    pairs, which = np.unique(key, return_inverse=True)
    delay = np.zeros(len(pairs))
    np.maximum.at(delay, which, platform.latency + graph.size[tensor] * platform.per_byte)
    before, after = np.divmod(pairs, max(num_ops, 1))
    offsets = np.searchsorted(before, np.arange(num_ops + 1)).astype(np.int64)
    op = graph.topological_order.astype(np.int64)
    return TaskGraph(op, graph.duration[op], offsets, after, delay)


@jit_with_arrays
def upward_ranks(tasks: TaskGraph) -> np.ndarray:
    """float64[O], us: rank_u, the longest path from each task on (Topcuoglu et al. 2002, eq. 8)."""
    rank = np.zeros(len(tasks.duration))
    for task in range(len(rank) - 1, -1, -1):
        for edge in range(tasks.offsets[task], tasks.offsets[task + 1]):
            rank[task] = max(rank[task], tasks.delay[edge] + rank[tasks.after[edge]])
        rank[task] += tasks.duration[task]
    return rank


@jit_with_arrays
def downward_ranks(tasks: TaskGraph) -> np.ndarray:
    """float64[O], us: rank_d, the longest path up to each task, its own duration left out (eq. 10
    of the same paper)."""
    rank = np.zeros(len(tasks.duration))
    for task in range(len(rank)):
        finish = rank[task] + tasks.duration[task]
        for edge in range(tasks.offsets[task], tasks.offsets[task + 1]):
            rank[tasks.after[edge]] = max(rank[tasks.after[edge]], finish + tasks.delay[edge])
    return rank


def makespan(tasks: TaskGraph, timetable: Timetable) -> float:
    """us: when the last task of a timetable ends."""
    return float(np.max(timetable.start + tasks.duration, initial=0.0))


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

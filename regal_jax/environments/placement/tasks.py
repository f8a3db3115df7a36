"""A graph as tasks with delays, for makespans: by topological position, and their ranks."""

from typing import NamedTuple

import numpy as np

from regal_jax.environments.platform import Platform
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.native.compilation import jit_with_arrays


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

"""Which tensor is in memory on which device from when to when, by a schedule's steps."""

from typing import NamedTuple

import numpy as np

from regal_jax.environments.schedule import Schedule
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting.step_times import describe_steps


class Lifetimes(NamedTuple):
    """Copies of tensors, as columns int64[C]; rows are those of ``checker.MemoryTimeline``.

    Attributes:
      tensor, device: what is in memory where.
      first, last: rows from and to which it is, both included: it is made or sent there in the one
        and used for the last time in the other; row 0 is before the first step.
    """

    tensor: np.ndarray
    device: np.ndarray
    first: np.ndarray
    last: np.ndarray


def lifetimes(graph: ComputationGraph, schedule: Schedule) -> Lifetimes:
    """The copies that a valid schedule has in memory (BUILD_NOTES.md, section 3)."""
    end, steps = len(schedule.steps), describe_steps(graph, schedule)
    row = np.zeros(graph.num_ops, np.int64)
    runs = steps.tensor < 0
    row[steps.op[runs]] = np.flatnonzero(runs) + 1
    made = np.flatnonzero(graph.producer >= 0)
    sent = np.flatnonzero(~runs)
    consumed, users = graph.consumers.row_of_value(), graph.consumers.values
    first, last = {}, {}
    for tensor in made.tolist():
        op = graph.producer[tensor]
        first[tensor, int(schedule.placement[op])] = int(row[op])
    for step in sent.tolist():
        tensor = int(steps.tensor[step])
        first[tensor, int(steps.target[step])] = step + 1
        last[tensor, int(steps.source[step])] = step + 1
    for tensor, op in zip(consumed.tolist(), users.tolist(), strict=True):
        copy = tensor, int(schedule.placement[op])
        first.setdefault(copy, 0)
        last[copy] = max(last.get(copy, 0), int(row[op]))
    kept = {
        (tensor, device): end
        for tensor, device in first
        if graph.persistent[tensor] and _at_home(graph, schedule, tensor, device)
    }
    columns = [(*copy, begin, (last | kept).get(copy, begin)) for copy, begin in first.items()]
    return Lifetimes(*np.array(columns, np.int64).reshape(-1, 4).T)


def _at_home(graph: ComputationGraph, schedule: Schedule, tensor: int, device: int) -> bool:
    producer = int(graph.producer[tensor])
    return producer < 0 or int(schedule.placement[producer]) == device

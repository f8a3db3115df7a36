"""Which tensor is in memory on which device from when to when, by a schedule's steps."""

from typing import NamedTuple

import numpy as np

from regal_jax.environments.recompute.checker import makings
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
    if schedule.runs_again:
        made = makings(graph, schedule.steps.tolist())
        held = [(one.tensor, 0, one.since, one.until) for one in made]
        return Lifetimes(*np.array(held, np.int64).reshape(-1, 4).T)
    steps, read = describe_steps(graph, schedule), readers(graph, schedule)
    row = np.zeros(graph.num_ops, np.int64)
    runs = steps.tensor < 0
    row[steps.op[runs]] = np.flatnonzero(runs) + 1
    first = {}
    for tensor in np.flatnonzero(graph.producer >= 0).tolist():
        op = graph.producer[tensor]
        first[tensor, int(schedule.placement[op])] = int(row[op])
    for step in np.flatnonzero(steps.tensor >= 0).tolist():
        first[int(steps.tensor[step]), int(steps.target[step])] = step + 1
    columns = []
    for tensor, device in first | dict.fromkeys(copy for copy in read if copy not in first):
        begin = first.get((tensor, device), 0)
        kept = graph.persistent[tensor] and _at_home(graph, schedule, tensor, device)
        end = len(schedule.steps) if kept else max(read.get((tensor, device), [begin]))
        columns.append((tensor, device, begin, end))
    return Lifetimes(*np.array(columns, np.int64).reshape(-1, 4).T)


def readers(graph: ComputationGraph, schedule: Schedule) -> dict[tuple[int, int], list[int]]:
    """(tensor, device) -> the rows that read that copy, ascending: ops there, and transfers that
    leave. Copies that nothing reads are left out."""
    steps, inputs = describe_steps(graph, schedule), graph.inputs.lists()
    found: dict[tuple[int, int], list[int]] = {}
    columns = steps.op.tolist(), steps.tensor.tolist(), steps.source.tolist()
    for row, (op, tensor, source) in enumerate(zip(*columns, strict=True), 1):
        for read in inputs[op] if tensor < 0 else [tensor]:
            found.setdefault((read, source), []).append(row)
    return found


def _at_home(graph: ComputationGraph, schedule: Schedule, tensor: int, device: int) -> bool:
    producer = int(graph.producer[tensor])
    return producer < 0 or int(schedule.placement[producer]) == device

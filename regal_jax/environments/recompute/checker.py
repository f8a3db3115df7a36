"""The stand-alone checker of schedules in which ops run again, plain Python (BUILD_NOTES.md, 3).

On one device. A run makes an op's tensors anew, and an op reads the latest. What a run made is in
memory until the last step that reads it. A persistent tensor stays from its first making on, and
isn't made again. An op that makes a tensor of no bytes, which orders other ops, may not run again
once one of those has run.
"""

from collections.abc import Sequence
from typing import NamedTuple

from regal_jax.errors import ScheduleError
from regal_jax.graphs.computation_graph import ComputationGraph


class Making(NamedTuple):
    """A tensor as one run made it, or as it is from the start.

    Attributes:
      tensor: which. since, until: rows, from 0 (the start) and 1 (the first step) on, both held.
    """

    tensor: int
    since: int
    until: int


def usage(graph: ComputationGraph, steps: Sequence[int]) -> list[int]:
    """Bytes in memory at the start and during each step, with its workspace. ScheduleError."""
    return usage_of(graph, steps, makings(graph, steps))


def usage_of(graph: ComputationGraph, steps: Sequence[int], made: Sequence[Making]) -> list[int]:
    """The same of what is known to be in memory."""
    change = [0] * (len(steps) + 2)
    for one in made:
        change[one.since] += int(graph.size[one.tensor])
        change[one.until + 1] -= int(graph.size[one.tensor])
    rows, now = [], 0
    for row, delta in enumerate(change[:-1]):
        now += delta
        rows.append(now + (int(graph.workspace[steps[row - 1]]) if row else 0))
    return rows


def makings(graph: ComputationGraph, steps: Sequence[int]) -> list[Making]:
    """All that is ever in memory. Raises ScheduleError for steps that can't run."""
    inputs, outputs = graph.inputs.lists(), graph.outputs.lists()
    since = {tensor: 0 for tensor, op in enumerate(graph.producer.tolist()) if op < 0}
    until: dict[int, int] = {}
    done: list[Making] = []
    locked: set[int] = set()
    has_run: set[int] = set()
    for row, op in enumerate(steps, 1):
        _check(graph, op, inputs, since, locked)
        has_run.add(op)
        for tensor in inputs[op]:
            until[tensor] = row
            if not graph.size[tensor] and graph.producer[tensor] >= 0:
                locked.add(int(graph.producer[tensor]))
        for tensor in outputs[op]:
            if tensor in since and graph.persistent[tensor]:
                continue
            if tensor in since:
                done.append(Making(tensor, since[tensor], until[tensor]))
            since[tensor] = until[tensor] = row
    if missing := set(range(graph.num_ops)) - has_run:
        raise ScheduleError(f"steps: op {min(missing)} never runs")
    for tensor, first in since.items():
        if tensor in until:  # an input that nothing reads is nowhere
            last = len(steps) if graph.persistent[tensor] else until[tensor]
            done.append(Making(tensor, first, last))
    return done


def _check(graph, op, inputs, since, locked) -> None:
    if not 0 <= op < graph.num_ops:
        raise ScheduleError(f"steps: {op} is not an op, and with one device there are no transfers")
    if op in locked:
        raise ScheduleError(
            f"steps: op {op} runs again after an op that waited for it, which may have changed what"
            " it reads"
        )
    missing = [tensor for tensor in inputs[op] if tensor not in since]
    if missing:
        raise ScheduleError(
            f"steps: op {op} runs before its input tensor {missing[0]} has been made"
        )

"""When the steps of a schedule happen, on one of two clocks.

The memory rules of a schedule are about the order of its steps, one after another over all devices;
the makespan is about devices that work side by side. A picture of both needs one time axis:

- "serial": steps lie end to end in schedule order, each at least a sliver wide. Memory over time is
  exact, step for step.
- "parallel": an op starts when the makespan model says; a transfer starts when its tensor is made
  and takes latency + bytes * per_byte. A device's memory changes at its own steps, in schedule
  order: a step listed later never changes it before one listed earlier, which can put a change
  after the start of the step that makes it, never before.
"""

import dataclasses
from typing import Literal, NamedTuple

import numpy as np

from regal_jax.environments.placement import checker
from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Schedule
from regal_jax.graphs.computation_graph import ComputationGraph

Clock = Literal["serial", "parallel"]


class StepTimes(NamedTuple):
    """Start and finish of each step, in schedule order: float64[S], us."""

    start: np.ndarray
    finish: np.ndarray


class Steps(NamedTuple):
    """What each step of a schedule is, as columns int64[S].

    Attributes:
      op: the op it runs, or the producer of the tensor it transfers.
      tensor: the tensor it transfers; -1 for an op.
      source, target: devices it reads from and writes to; the same for an op.
    """

    op: np.ndarray
    tensor: np.ndarray
    source: np.ndarray
    target: np.ndarray


def describe_steps(graph: ComputationGraph, schedule: Schedule) -> Steps:
    """The steps of a valid schedule, decoded."""
    is_op = schedule.steps < graph.num_ops
    transfer, device = np.divmod(schedule.steps - graph.num_ops, schedule.num_devices)
    tensor = np.where(is_op, -1, transfer)
    producer = graph.producer[tensor] if graph.num_tensors else np.zeros_like(tensor)
    op = np.where(is_op, schedule.steps, producer).astype(np.int64)
    source = schedule.placement[op].astype(np.int64)
    return Steps(op, tensor, source, np.where(is_op, source, device))


def step_times(
    graph: ComputationGraph,
    schedule: Schedule,
    platform: Platform | None = None,
    *,
    clock: Clock | None = None,
) -> StepTimes:
    """Times of the steps; by default serial for the objective peak_memory, parallel for makespan.

    Raises:
      ScheduleError: for an invalid schedule, or a platform with another number of devices.
    """
    platform = dataclasses.replace(platform or Platform(schedule.num_devices), memory_capacity=None)
    op_start = checker.evaluate(graph, schedule, platform).start
    steps = describe_steps(graph, schedule)
    duration = _durations(graph, steps, platform)
    serial = clock == "serial" or (clock is None and schedule.objective == "peak_memory")
    if serial or schedule.runs_again:  # on one device both clocks lay steps end to end
        finish = np.cumsum(np.maximum(duration, _sliver(duration)) if serial else duration)
        return StepTimes(np.concatenate([[0.0], finish[:-1]])[: len(finish)], finish)
    made = op_start[steps.op] + graph.duration[steps.op]
    start = np.where(steps.tensor < 0, op_start[steps.op], made)
    return StepTimes(start, start + duration)


def memory_change_times(steps: Steps, times: StepTimes, num_devices: int) -> np.ndarray:
    """float64[S, D], us: when each device's memory takes the value it has during each step.

    That is at the start of a step that touches the device and, for the first other one after it, at
    its finish; never earlier than for the step before.
    """
    device = np.arange(num_devices)
    touched = (steps.source[:, None] == device) | (steps.target[:, None] == device)
    finished = np.maximum.accumulate(np.where(touched, times.finish[:, None], 0.0), axis=0)
    return np.maximum.accumulate(np.where(touched, times.start[:, None], finished), axis=0)


def _durations(graph: ComputationGraph, steps: Steps, platform: Platform) -> np.ndarray:
    """float64[S], us."""
    size = graph.size[steps.tensor] if graph.num_tensors else np.zeros(len(steps.tensor))
    transfer = platform.latency + size * platform.per_byte
    return np.where(steps.tensor < 0, graph.duration[steps.op], transfer)


def _sliver(duration: np.ndarray) -> float:
    """us: the least width of a step that can still be seen; a nanosecond at least."""
    positive = duration[duration > 0]
    return max(0.001, float(positive.mean()) / 20) if positive.size else 1.0

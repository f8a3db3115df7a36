"""The stand-alone checker: is a schedule valid, and what does it cost? Plain Python and numpy.

It shares no code with the search's cost models, so that one can be held against the other.
"""

from typing import NamedTuple

import numpy as np

from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import ScheduleError
from regal_jax.graphs.computation_graph import ComputationGraph


class Cost(NamedTuple):
    """What a schedule costs, exactly (BUILD_NOTES.md, section 3).

    Attributes:
      peak_memory: int64[D], bytes.
      makespan: us.
      start: float64[O], us; when each op starts if run in this order.
    """

    peak_memory: np.ndarray
    makespan: float
    start: np.ndarray


class MemoryTimeline(NamedTuple):
    """Memory in use on each device at the start (row 0) and during each step (row i + 1).

    Attributes:
      usage: int64[S + 1, D], bytes; a step's row counts its outputs, inputs and workspace.
      live_at_peak: per device, the tensors in memory when it is fullest, largest first.
      peak_row: int64[D], the row of each device's maximum (the first, on ties).
    """

    usage: np.ndarray
    live_at_peak: tuple[tuple[int, ...], ...]
    peak_row: np.ndarray


def evaluate(graph: ComputationGraph, schedule: Schedule, platform: Platform | None = None) -> Cost:
    """Validates a schedule against its graph and computes its exact cost.

    Args:
      graph: the graph the schedule belongs to.
      schedule: placement and steps; the costs it claims are not looked at.
      platform: latency and bandwidth for the makespan, and memory capacity to hold the schedule
        to; by default free transfers and no capacity.

    Raises:
      ScheduleError: for an invalid schedule, or one that exceeds the memory capacity.
    """
    platform = platform or Platform(num_devices=schedule.num_devices)
    if platform.num_devices != schedule.num_devices:
        raise ScheduleError(
            f"num_devices: the schedule has {schedule.num_devices},"
            f" the platform {platform.num_devices}"
        )
    peak = memory_timeline(graph, schedule).usage.max(axis=0)
    _check_capacity(peak, platform)
    start = start_times(graph, schedule, platform)
    return Cost(peak, float(np.max(start + graph.duration, initial=0.0)), start)


def memory_timeline(graph: ComputationGraph, schedule: Schedule) -> MemoryTimeline:
    """Executes a schedule on lists of tensors in memory, checking every step. ScheduleError."""
    memory = _Memory(graph, schedule)
    rows, best, live = [memory.use.copy()], memory.use.copy(), [set(held) for held in memory.live]
    peak_row = np.zeros(schedule.num_devices, np.int64)
    for row, step in enumerate(schedule.steps.tolist(), 1):
        memory.acquire(step)
        rows.append(memory.use + memory.extra(step))
        for device in np.flatnonzero(rows[-1] > best):
            best[device], peak_row[device] = rows[-1][device], row
            live[device] = set(memory.live[device])
        memory.release(step)
    memory.check_complete()
    largest_first = [tuple(sorted(held, key=lambda t: (-graph.size[t], t))) for held in live]
    return MemoryTimeline(np.array(rows), tuple(largest_first), peak_row)


def start_times(graph: ComputationGraph, schedule: Schedule, platform: Platform) -> np.ndarray:
    """float64[O], us: earliest starts in the schedule's order (gflownet paper, eq. 2)."""
    start = np.zeros(graph.num_ops)
    finish = np.zeros(graph.num_ops)
    free = np.zeros(platform.num_devices)
    placement = schedule.placement
    for op in schedule.ops_in_order().tolist():
        ready = free[placement[op]]
        for tensor in graph.inputs.row(op):
            producer = graph.producer[tensor]
            if producer >= 0:
                crosses = placement[producer] != placement[op]
                delay = platform.latency + float(graph.size[tensor]) * platform.per_byte
                ready = max(ready, finish[producer] + (delay if crosses else 0.0))
        start[op], finish[op] = ready, ready + graph.duration[op]
        free[placement[op]] = finish[op]
    return start


class _Memory:
    """The tensors in memory on each device, and the uses each copy still has."""

    def __init__(self, graph: ComputationGraph, schedule: Schedule):
        self.graph, self.placement = graph, schedule.placement.tolist()
        self.num_devices = schedule.num_devices
        _check_shape(graph, schedule)
        self.done: set[int] = set()
        self.live: list[set[int]] = [set() for _ in range(self.num_devices)]
        self.use = np.zeros(self.num_devices, np.int64)
        self.uses: dict[tuple[int, int], int] = {}
        for tensor in range(graph.num_tensors):
            self._count_uses(tensor)

    def _count_uses(self, tensor: int) -> None:
        """Local uses of each copy: consumers there, and at home the transfers that leave."""
        producer = int(self.graph.producer[tensor])
        home = self.placement[producer] if producer >= 0 else -1
        for op in self.graph.consumers.row(tensor).tolist():
            device = self.placement[op]
            if (tensor, device) not in self.uses:
                self.uses[tensor, device] = 0
                if producer < 0:
                    self._add(tensor, device)
                elif device != home:
                    self.uses[tensor, home] = self.uses.get((tensor, home), 0) + 1
            self.uses[tensor, device] += 1

    def acquire(self, step: int) -> None:
        """Adds what a step makes; ScheduleError where it may not run yet."""
        if step < 0:
            raise ScheduleError(f"steps: {step} is not a step")
        if step in self.done:
            raise ScheduleError(f"steps: {self._name(step)} runs twice")
        self.done.add(step)
        inputs, source, outputs, target = self._effect(step)
        for tensor in inputs:
            if tensor not in self.live[source]:
                raise ScheduleError(
                    f"steps: {self._name(step)} runs on device {target} before its input"
                    f" tensor {tensor} is on device {source}"
                )
        for tensor in outputs:
            self._add(tensor, target)

    def extra(self, step: int) -> np.ndarray:
        """int64[D]: the workspace a step holds while it runs."""
        extra = np.zeros(self.num_devices, np.int64)
        if step < self.graph.num_ops:
            extra[self.placement[step]] = self.graph.workspace[step]
        return extra

    def release(self, step: int) -> None:
        """Frees outputs nobody needs here, and inputs whose last use on the device this was."""
        inputs, source, outputs, target = self._effect(step)
        for tensor in inputs:
            self.uses[tensor, source] -= 1
            self._free_if_unused(tensor, source)
        for tensor in outputs:
            self._free_if_unused(tensor, target)

    def check_complete(self) -> None:
        missing = set(range(self.graph.num_ops)) - self.done
        if missing:
            raise ScheduleError(f"steps: op {min(missing)} never runs")

    def _effect(self, step: int) -> tuple[list[int], int, list[int], int]:
        """(tensors read, on which device, tensors made, on which device)."""
        graph = self.graph
        if step < graph.num_ops:
            device = self.placement[step]
            return graph.inputs.row(step).tolist(), device, graph.outputs.row(step).tolist(), device
        tensor, device = divmod(step - graph.num_ops, self.num_devices)
        producer = int(graph.producer[tensor]) if tensor < graph.num_tensors else -1
        needed = (tensor, device) in self.uses
        if producer < 0 or not needed or self.placement[producer] == device:
            raise ScheduleError(f"steps: {self._name(step)} is not needed")
        return [tensor], self.placement[producer], [tensor], device

    def _add(self, tensor: int, device: int) -> None:
        self.live[device].add(tensor)
        self.use[device] += self.graph.size[tensor]

    def _free_if_unused(self, tensor: int, device: int) -> None:
        producer = int(self.graph.producer[tensor])
        at_home = producer < 0 or self.placement[producer] == device
        kept = self.graph.persistent[tensor] and at_home
        if not kept and self.uses.get((tensor, device), 0) == 0:
            self.live[device].remove(tensor)
            self.use[device] -= self.graph.size[tensor]

    def _name(self, step: int) -> str:
        if step < self.graph.num_ops:
            return f"op {step}"
        tensor, device = divmod(step - self.graph.num_ops, self.num_devices)
        return f"the transfer of tensor {tensor} to device {device}"


def _check_shape(graph: ComputationGraph, schedule: Schedule) -> None:
    placement = schedule.placement
    if len(placement) != graph.num_ops:
        raise ScheduleError(f"placement: has {len(placement)} entries for {graph.num_ops} ops")
    outside = np.flatnonzero((placement < 0) | (placement >= schedule.num_devices))
    if outside.size:
        op = int(outside[0])
        raise ScheduleError(f"placement: op {op} is on device {placement[op]}, which doesn't exist")


def _check_capacity(peak: np.ndarray, platform: Platform) -> None:
    over = np.flatnonzero(peak > platform.capacities())
    if over.size:
        device = int(over[0])
        raise ScheduleError(
            f"peak_memory: device {device} needs {int(peak[device])} bytes,"
            f" its capacity is {int(platform.capacities()[device])}"
        )

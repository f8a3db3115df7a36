"""The stand-alone checker: is a schedule valid, and what does it cost? Plain Python and numpy.

It shares no code with the search's cost models, so that one can be held against the other.
"""

from typing import NamedTuple

import numpy as np

from regal_jax.environments.platform import Platform
from regal_jax.environments.recompute import checker as recompute
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
    if schedule.num_devices == 1:
        times = np.cumsum([0.0, *graph.duration[schedule.steps]])
        start = np.zeros(graph.num_ops)
        start[schedule.steps[::-1]] = times[:-1][::-1]  # of an op's runs the first
        return Cost(peak, float(times[-1]), start)
    start = start_times(graph, schedule, platform)
    return Cost(peak, float(np.max(start + graph.duration, initial=0.0)), start)


def memory_timeline(graph: ComputationGraph, schedule: Schedule) -> MemoryTimeline:
    """Executes a schedule on lists of tensors in memory, checking every step. ScheduleError.

    Ops may run again on one device (``recompute.checker``).
    """
    if schedule.num_devices == 1 and schedule.runs_again:
        return _with_runs_again(graph, schedule)
    memory = _Memory(graph, schedule)
    rows, best, live = [list(memory.use)], list(memory.use), [set(held) for held in memory.live]
    peak_row = [0] * schedule.num_devices
    for row, step in enumerate(schedule.steps.tolist(), 1):
        effect = memory.acquire(step)
        rows.append(memory.use_during(step))
        for device, use in enumerate(rows[-1]):
            if use > best[device]:
                best[device], peak_row[device] = use, row
                live[device] = set(memory.live[device])
        memory.release(effect)
    memory.check_complete()
    largest_first = [tuple(sorted(held, key=lambda t: (-graph.size[t], t))) for held in live]
    return MemoryTimeline(
        np.array(rows, np.int64), tuple(largest_first), np.array(peak_row, np.int64)
    )


def _with_runs_again(graph: ComputationGraph, schedule: Schedule) -> MemoryTimeline:
    _check_shape(graph, schedule)
    steps = schedule.steps.tolist()
    made = recompute.makings(graph, steps)
    usage = np.array(recompute.usage_of(graph, steps, made), np.int64)
    row = int(usage.argmax())
    live = {one.tensor for one in made if one.since <= row <= one.until}
    largest_first = tuple(sorted(live, key=lambda t: (-graph.size[t], t)))
    return MemoryTimeline(usage[:, None], (largest_first,), np.array([row]))


def start_times(graph: ComputationGraph, schedule: Schedule, platform: Platform) -> np.ndarray:
    """float64[O], us: earliest starts in the schedule's order (gflownet paper, eq. 2)."""
    start, finish = [0.0] * graph.num_ops, [0.0] * graph.num_ops
    free = [0.0] * platform.num_devices
    placement, duration = schedule.placement.tolist(), graph.duration.tolist()
    inputs, producer = graph.inputs.lists(), graph.producer.tolist()
    delay = (platform.latency + graph.size.astype(float) * platform.per_byte).tolist()
    for op in schedule.ops_in_order().tolist():
        ready = free[placement[op]]
        for tensor in inputs[op]:
            if producer[tensor] >= 0:
                crosses = placement[producer[tensor]] != placement[op]
                arrival = finish[producer[tensor]] + (delay[tensor] if crosses else 0.0)
                ready = max(ready, arrival)
        start[op], finish[op] = ready, ready + duration[op]
        free[placement[op]] = finish[op]
    return np.array(start)


class _Effect(NamedTuple):
    """What a step reads, on which device, and what it makes, on which."""

    inputs: list[int]
    source: int
    outputs: list[int]
    target: int


class _Memory:
    """The tensors in memory on each device, and the uses each copy still has."""

    def __init__(self, graph: ComputationGraph, schedule: Schedule):
        self.graph, self.placement = graph, schedule.placement.tolist()
        self.num_devices = schedule.num_devices
        _check_shape(graph, schedule)
        self.inputs, self.outputs = graph.inputs.lists(), graph.outputs.lists()
        self.producer, self.persistent = graph.producer.tolist(), graph.persistent.tolist()
        self.size, self.workspace = graph.size.tolist(), graph.workspace.tolist()
        self.done: set[int] = set()
        self.live: list[set[int]] = [set() for _ in range(self.num_devices)]
        self.use = [0] * self.num_devices
        self.uses: dict[tuple[int, int], int] = {}
        for tensor, consumers in enumerate(graph.consumers.lists()):
            self._count_uses(tensor, consumers)

    def _count_uses(self, tensor: int, consumers: list[int]) -> None:
        """Local uses of each copy: consumers there, and at home the transfers that leave."""
        producer = self.producer[tensor]
        home = self.placement[producer] if producer >= 0 else -1
        for op in consumers:
            device = self.placement[op]
            if (tensor, device) not in self.uses:
                self.uses[tensor, device] = 0
                if producer < 0:
                    self._add(tensor, device)
                elif device != home:
                    self.uses[tensor, home] = self.uses.get((tensor, home), 0) + 1
            self.uses[tensor, device] += 1

    def acquire(self, step: int) -> _Effect:
        """Adds what a step makes; ScheduleError where it may not run yet."""
        if step < 0:
            raise ScheduleError(f"steps: {step} is not a step")
        if step in self.done:
            remedy = ", which an op may on one device alone" * (step < self.graph.num_ops)
            raise ScheduleError(f"steps: {self._name(step)} runs twice{remedy}")
        self.done.add(step)
        effect = self._effect(step)
        for tensor in effect.inputs:
            if tensor not in self.live[effect.source]:
                raise ScheduleError(
                    f"steps: {self._name(step)} runs on device {effect.target} before its input"
                    f" tensor {tensor} is on device {effect.source}"
                )
        for tensor in effect.outputs:
            self._add(tensor, effect.target)
        return effect

    def use_during(self, step: int) -> list[int]:
        """Bytes on each device, with the workspace that the step holds while it runs."""
        use = list(self.use)
        if step < self.graph.num_ops:
            use[self.placement[step]] += self.workspace[step]
        return use

    def release(self, effect: _Effect) -> None:
        """Frees outputs nobody needs here, and inputs whose last use on the device this was."""
        for tensor in effect.inputs:
            self.uses[tensor, effect.source] -= 1
            self._free_if_unused(tensor, effect.source)
        for tensor in effect.outputs:
            self._free_if_unused(tensor, effect.target)

    def check_complete(self) -> None:
        missing = set(range(self.graph.num_ops)) - self.done
        if missing:
            raise ScheduleError(f"steps: op {min(missing)} never runs")

    def _effect(self, step: int) -> _Effect:
        if step < self.graph.num_ops:
            device = self.placement[step]
            return _Effect(self.inputs[step], device, self.outputs[step], device)
        tensor, device = divmod(step - self.graph.num_ops, self.num_devices)
        producer = self.producer[tensor] if tensor < self.graph.num_tensors else -1
        needed = (tensor, device) in self.uses
        if producer < 0 or not needed or self.placement[producer] == device:
            raise ScheduleError(f"steps: {self._name(step)} is not needed")
        return _Effect([tensor], self.placement[producer], [tensor], device)

    def _add(self, tensor: int, device: int) -> None:
        self.live[device].add(tensor)
        self.use[device] += self.size[tensor]

    def _free_if_unused(self, tensor: int, device: int) -> None:
        producer = self.producer[tensor]
        at_home = producer < 0 or self.placement[producer] == device
        kept = self.persistent[tensor] and at_home
        if not kept and self.uses.get((tensor, device), 0) == 0:
            self.live[device].remove(tensor)
            self.use[device] -= self.size[tensor]

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

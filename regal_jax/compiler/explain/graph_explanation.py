"""Why the memory peak of a graph's schedule is where it is, what bounds it, what would lower it.

For graphs of any source: ONNX models, PyTorch modules, files; of compiled XLA programs
``explanation`` knows more.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from regal_jax import api
from regal_jax.environments.base import has_machines
from regal_jax.environments.placement import checker
from regal_jax.environments.recompute.bounds import peak_bound
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.kind_groups import GROUPS, group_of
from regal_jax.reporting.lifetimes import lifetimes, readers

DEAR = ("matrix, convolution", "fused, control", "creation, random")
"""Groups of kinds that are dear to run twice, or must not be."""
LEAST_PART = 1000
"""Remedies that save less than the peak by this are left out."""

How = Literal["recompute", "offload", "persistent", "workspace"]


class LiveTensor(NamedTuple):
    """A tensor in memory at the peak, on the device of the peak.

    Attributes:
      tensor: its index. num_bytes: its size. name: as in the graph.
      persistent: whether it is never freed.
      made: the step that makes it or brings it here, 0 if it is there at the start.
      used: the last step up to the peak that makes or reads it.
      next_reader: the next step that reads it, None if none does.
    """

    tensor: int
    num_bytes: int
    name: str
    persistent: bool
    made: int
    used: int
    next_reader: int | None

    def idle(self, step: int) -> int | None:
        """Steps from its last use to its next reader; 0 if the step uses it, None without one."""
        if self.used == step:
            return 0
        return None if self.next_reader is None else self.next_reader - self.used


class GraphRemedy(NamedTuple):
    """What would lower the peak.

    Attributes:
      how: what is to be done. tensors: with what, the largest first.
      num_bytes: their size. peak: bytes, counted again without them.
      saves: bytes, at most.
    """

    how: How
    tensors: tuple[int, ...]
    num_bytes: int
    peak: int
    saves: int


@dataclasses.dataclass(frozen=True)
class GraphExplanation:
    """What is known of the memory of a schedule.

    Attributes:
      graph, schedule: what is explained.
      usage: int64[S + 1, D], bytes in use at the start and during each step.
      live: all tensors in memory at the peak, on its device, the largest first.
      bound: bytes of the fullest device; no schedule on as many needs less.
      remedies: the one that saves most first.
      found: the best schedule of a search, if there was one.
    """

    graph: ComputationGraph
    schedule: Schedule
    usage: np.ndarray
    live: Sequence[LiveTensor]
    bound: int
    remedies: Sequence[GraphRemedy]
    found: Schedule | None = None

    @property
    def peak(self) -> int:
        """Bytes of the fullest device."""
        return int(self.usage.max())

    @property
    def peak_step(self) -> int:
        """The step of the peak, from 1, the first of several; 0 is before the first."""
        return _place(self.usage)[0]

    @property
    def device(self) -> int:
        """The device of the peak."""
        return _place(self.usage)[1]

    @property
    def reducible(self) -> int:
        """Bytes by which another schedule could lower the peak at most."""
        return max(self.peak - self.bound, 0)


def explain_graph(
    graph: ComputationGraph, schedule: Schedule | None = None, *, search: bool = False
) -> GraphExplanation:
    """Explains the memory of a schedule, by default that of program order on one device.

    ``search`` looks for a schedule that needs less (``auto``, half a minute at most).

    Raises ScheduleError for an invalid schedule, OptionError for one on machine types.
    """
    schedule = schedule or program_order(graph)
    if has_machines(graph, schedule.objective):
        raise OptionError("a schedule on machine types has no memory to explain")
    usage = checker.memory_timeline(graph, schedule).usage
    live, devices = _live(graph, schedule, *_place(usage)), schedule.num_devices
    bound = float(peak_bound(graph, schedule))
    found = None
    if search:
        found = api.optimize(graph, num_devices=devices, time_limit=SECONDS)
        bound = bound if schedule.runs_again else max(bound, found.lower_bound or 0.0)
    remedies = _remedies(graph, schedule, usage, live)
    return GraphExplanation(graph, schedule, usage, live, int(bound), remedies, found)


SECONDS = 30.0
"""Of a search."""


def program_order(graph: ComputationGraph) -> Schedule:
    """The graph's own order on one device."""
    return Schedule(
        graph=graph.name,
        objective="peak_memory",
        num_devices=1,
        placement=np.zeros(graph.num_ops, np.int32),
        steps=graph.topological_order.astype(np.int64),
        method="program_order",
    )


def _place(usage: np.ndarray) -> tuple[int, int]:
    """(row, device) of the peak."""
    row, device = np.unravel_index(usage.argmax(), usage.shape)
    return int(row), int(device)


def _live(graph: ComputationGraph, schedule: Schedule, row: int, device: int) -> list[LiveTensor]:
    read, found = readers(graph, schedule), []
    for tensor, where, first, last in zip(*lifetimes(graph, schedule), strict=True):
        if where != device or not first <= row <= last:
            continue
        rows = read.get((int(tensor), device), [])
        used = max([int(first), *(one for one in rows if one <= row)])
        after = next((one for one in rows if one > row), None)
        size, name = int(graph.size[tensor]), graph.tensor_label(int(tensor))
        persistent = bool(graph.persistent[tensor])
        found.append(LiveTensor(int(tensor), size, name, persistent, int(first), used, after))
    return sorted(found, key=lambda one: (-one.num_bytes, one.tensor))


def _remedies(
    graph: ComputationGraph, schedule: Schedule, usage: np.ndarray, live: Sequence[LiveTensor]
) -> list[GraphRemedy]:
    """What saves a thousandth of the peak, by counting again without it."""
    row, device = _place(usage)
    idle = [one for one in live if one.num_bytes and not one.persistent and one.idle(row)]
    cheap = _recomputable(graph, schedule, idle, device)
    kept = [one for one in live if one.persistent and one.num_bytes]
    ways: Mapping[How, tuple[Sequence[LiveTensor], np.ndarray]] = {
        "recompute": (cheap, _without(usage, cheap, device)),
        "offload": (idle, _without(usage, idle, device)),
        "persistent": (kept, _halved(usage, kept, device)),
        "workspace": ((), _without_workspace(graph, schedule, usage)),
    }
    peak = int(usage.max())
    found = [
        GraphRemedy(
            *(how, tuple(one.tensor for one in some), sum(one.num_bytes for one in some)),
            *(int(left.max()), peak - int(left.max())),
        )
        for how, (some, left) in ways.items()
    ]
    worth = [one for one in found if one.saves > 0 and one.saves * LEAST_PART >= peak]
    return sorted(worth, key=lambda one: -one.saves)


def _recomputable(
    graph: ComputationGraph, schedule: Schedule, idle: Iterable[LiveTensor], device: int
) -> list[LiveTensor]:
    """Idle tensors of cheap ops, the largest first, whose inputs are in memory when they are read
    next, though others of them are not while they are idle."""
    copies = zip(*(column.tolist() for column in lifetimes(graph, schedule)), strict=True)
    spans = {tensor: (first, last) for tensor, where, first, last in copies if where == device}
    inputs, needed = graph.inputs.lists(), set[tuple[int, int]]()
    chosen: dict[int, LiveTensor] = {}

    def there(tensor: int, row: int) -> bool:
        first, last = spans.get(tensor, (1, 0))
        return first <= row <= last and not (tensor in chosen and _gone(chosen[tensor], row))

    for one in idle:
        op, row = int(graph.producer[one.tensor]), one.next_reader or 0
        if not _is_cheap(graph, op) or schedule.placement[op] != device:
            continue
        wanted = any(tensor == one.tensor and _gone(one, at) for tensor, at in needed)
        if not wanted and all(there(tensor, row) for tensor in inputs[op]):
            chosen[one.tensor] = one
            needed |= {(tensor, row) for tensor in inputs[op]}
    return list(chosen.values())


def _is_cheap(graph: ComputationGraph, op: int) -> bool:
    """Whether a kind is known that may run twice."""
    return bool(graph.op_kinds) and op >= 0 and GROUPS[group_of(graph.op_kinds[op])] not in DEAR


def _gone(one: LiveTensor, row: int) -> bool:
    """Whether it is idle at a row."""
    return one.used < row < (one.next_reader or 0)


def _without(usage: np.ndarray, some: Iterable[LiveTensor], device: int) -> np.ndarray:
    """Usage if these weren't in memory while they are idle."""
    left = usage.copy()
    for one in some:
        left[one.used + 1 : one.next_reader, device] -= one.num_bytes
    return left


def _halved(usage: np.ndarray, kept: Iterable[LiveTensor], device: int) -> np.ndarray:
    left = usage.copy()
    for one in kept:
        left[one.made :, device] -= one.num_bytes // 2
    return left


def _without_workspace(
    graph: ComputationGraph, schedule: Schedule, usage: np.ndarray
) -> np.ndarray:
    """Usage if the op at the peak needed no workspace."""
    (row, device), left = _place(usage), usage.copy()
    if row and (op := schedule.steps[row - 1]) < graph.num_ops:
        left[row, device] -= graph.workspace[op] * (schedule.placement[op] == device)
    return left

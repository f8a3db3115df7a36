"""What each device does, step by step, to run a JAX function by a schedule of its graph."""

from typing import NamedTuple

from regal_jax.environments.schedule import Schedule
from regal_jax.graphs.importers.jax.flat_program import FlatOp, FlatProgram


class DeviceStep(NamedTuple):
    """One op in its device's turn; values are those of the ``FlatProgram``.

    Attributes:
      op: its index.
      receives: values made elsewhere that the device needs here for the first time.
      sends: (value, device) pairs to copy when the op has ended.
      frees: values that the device needs no more after the op.
    """

    op: int
    receives: tuple[int, ...]
    sends: tuple[tuple[int, int], ...]
    frees: tuple[int, ...]


class DevicePlan(NamedTuple):
    """The steps of one device, and the arguments and constants that they read."""

    steps: tuple[DeviceStep, ...]
    sources: tuple[int, ...]


def device_plans(program: FlatProgram, schedule: Schedule) -> list[DevicePlan]:
    """The plan of each device, for a valid schedule of the program's graph.

    As in the cost model, a value crosses to a device once and is freed there after its last use.
    What the function's results are made of stays on the device that made it. Raises OptionError
    where an op runs again.
    """
    schedule.check_runs_once("an executor")
    uses = _uses(program, schedule)
    steps: list[list[DeviceStep]] = [[] for _ in range(schedule.num_devices)]
    for op in schedule.ops_in_order().tolist():
        device = int(schedule.placement[op])
        steps[device].append(_step(op, device, program.ops[op], uses))
    sources: list[list[int]] = [[] for _ in steps]
    for value, device in uses.first:
        if value not in uses.home:
            sources[device].append(value)
    return [DevicePlan(tuple(s), tuple(v)) for s, v in zip(steps, sources, strict=True)]


class _Uses(NamedTuple):
    """Where values are made and used.

    ``home``: the device that makes a value. ``first``, ``last``: of (value, device), the op that
    reads it there before, or makes or reads it there after, all others. ``readers``: the devices
    that read a value. ``kept``: the values needed to the end.
    """

    home: dict[int, int]
    first: dict[tuple[int, int], int]
    last: dict[tuple[int, int], int]
    readers: dict[int, list[int]]
    kept: frozenset[int]


def _uses(program: FlatProgram, schedule: Schedule) -> _Uses:
    uses = _Uses({}, {}, {}, {}, frozenset(program.bases()))
    for index in schedule.ops_in_order().tolist():
        op, device = program.ops[index], int(schedule.placement[index])
        for value in op.reads:
            if (value, device) not in uses.first:
                uses.first[value, device] = index
                uses.readers.setdefault(value, []).append(device)
        uses.home.update((value, device) for value in op.writes)
        uses.last.update(((value, device), index) for value in (*op.reads, *op.writes))
    return uses


def _step(index: int, device: int, op: FlatOp, uses: _Uses) -> DeviceStep:
    foreign = [value for value in op.reads if uses.home.get(value, device) != device]
    finished = [v for v in (*op.reads, *op.writes) if uses.last[v, device] == index]
    return DeviceStep(
        index,
        receives=tuple(value for value in foreign if uses.first[value, device] == index),
        sends=tuple((v, d) for v in op.writes for d in uses.readers.get(v, ()) if d != device),
        frees=tuple(v for v in finished if v not in uses.kept or uses.home.get(v) != device),
    )

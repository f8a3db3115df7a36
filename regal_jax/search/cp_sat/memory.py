"""CP-SAT's view of memory: positions of steps, lifetimes of tensors, one cumulative a device.

Steps have positions in ``0..N - 1``. A copy of a tensor is an interval of positions, from the step
that makes it to its last local use; the intervals on a device, each as high as its bytes, stay
below the device's peak (BUILD_NOTES.md, section 3).

Two steps may share a position, except for ops where one reads what the other makes. This costs
nothing and loses nothing: a valid order of steps is a solution with distinct positions; and steps
that share one are counted as if all ran at once, so that running them one after the other, in any
order that respects the graph, needs no more. A transfer may share the position of its tensor's
producer or of its reader.

Bytes are counted in multiples of their greatest common divisor. Tensors of size 0 order ops, but
their transfers, which use no memory, aren't part of the model.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from regal_jax.environments.schedule import Schedule
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph

LARGEST_SUM = 2**60
"""Bytes times positions, in units, stay below this: CP-SAT adds such products up in int64."""

HOME, ANYWHERE = -1, -2
"""Stand for devices in keys of variables."""

Literal = Any
Placement = list[list[Literal]]
"""[O][D], whether the op runs on the device."""


class Resident(NamedTuple):
    """A tensor or, where they live alike, several.

    Attributes:
      tensor: the first.
      producer: op or -1.
      size: units.
      persistent: whether it stays on its home.
      readers: ops.
    """

    tensor: int
    producer: int
    size: int
    persistent: bool
    readers: tuple[int, ...]


class MemoryParts(NamedTuple):
    """What a model of memory is made of; R residents.

    Attributes:
      unit: bytes.
      residents: R of them.
      instant: int[O], units that an op uses only while it runs: workspace and unread outputs.
      num_positions: N, enough for every op and every transfer of a schedule.
    """

    unit: int
    residents: list[Resident]
    instant: list[int]
    num_positions: int


class MemoryVariables(NamedTuple):
    """The variables of memory.

    Attributes:
      position: of each op, [O].
      needed: (readers, device) -> whether one of them runs there.
      moved: (resident, device) -> whether it is transferred there.
      arrival: (resident, device) -> position of the transfer.
      end: (resident, device), (resident, HOME) or (resident, ANYWHERE) -> position after the last
        use of a copy, of the tensor at home, of it on any device.
      length: the same -> end less start.
    """

    position: list[Any]
    needed: dict[tuple[tuple[int, ...], int], Literal]
    moved: dict[tuple[int, int], Literal]
    arrival: dict[tuple[int, int], Any]
    end: dict[tuple[int, int], Any]
    length: dict[tuple[int, int], Any]


def memory_parts(graph: ComputationGraph, num_devices: int) -> MemoryParts:
    """The parts of a graph on D devices."""
    unit = max(1, math.gcd(*graph.size.tolist(), *graph.workspace.tolist()))
    instant = graph.workspace // unit
    unread = (graph.producer >= 0) & (graph.consumers.lengths() == 0) & ~graph.persistent
    np.add.at(instant, graph.producer[unread], graph.size[unread] // unit)
    residents = _residents(graph, unit, num_devices)
    transfers = sum(
        min(num_devices - 1, len(one.readers)) for one in residents if one.producer >= 0
    )
    return MemoryParts(unit, residents, instant.tolist(), graph.num_ops + transfers)


def total(parts: MemoryParts) -> int:
    """Units that no device exceeds."""
    return sum(resident.size for resident in parts.residents) + sum(parts.instant)


def fits_int64(parts: MemoryParts, num_devices: int) -> bool:
    """Whether CP-SAT's sums over the model stay in range."""
    return total(parts) * num_devices * (parts.num_positions + 1) < LARGEST_SUM


def add_placement(model, num_ops: int, num_devices: int) -> Placement:
    """A literal for each op and device, of which one an op is true."""
    if num_devices == 1:
        return [[model.new_constant(1)] for _ in range(num_ops)]
    if num_devices == 2:
        first = [model.new_bool_var("") for _ in range(num_ops)]
        return [[literal, ~literal] for literal in first]
    placement = [[model.new_bool_var("") for _ in range(num_devices)] for _ in range(num_ops)]
    for literals in placement:
        model.add_exactly_one(literals)
    return placement


def break_symmetry(model, placement: Placement, ranked: np.ndarray) -> None:
    """The k-th op of a ranking runs on one of the first k devices.

    Where devices are alike, numbering them by their first op in the ranking loses no schedule.
    """
    num_devices = len(placement[0])
    for rank, op in enumerate(ranked[:num_devices].tolist()):
        for literal in placement[op][rank + 1 :]:
            model.add_bool_and([~literal])


def renumbered(placement: np.ndarray, ranked: np.ndarray, num_devices: int) -> np.ndarray:
    """int[D]: the number of each device by its first op in a ranking."""
    number = np.full(num_devices, -1)
    for device in [*placement[ranked].tolist(), *range(num_devices)]:
        if number[device] < 0:
            number[device] = number.max() + 1
    return number


def add_memory(
    model,
    graph: ComputationGraph,
    parts: MemoryParts,
    placement: Placement,
    peaks: Sequence[Any],
    together: Any,
) -> MemoryVariables:
    """Adds the order of steps and the memory of each device, at most ``peaks`` units.

    ``together`` is a limit of the sum over devices that the peaks imply. Stated on its own it holds
    whatever the placement, which lets CP-SAT prove more.
    """
    position = _positions(model, graph, parts.num_positions)
    variables = MemoryVariables(position, {}, {}, {}, {}, {})
    loads: list[list[tuple[Any, int]]] = [[] for _ in peaks]
    for op, amount in enumerate(parts.instant):
        if amount:
            for literal, load in zip(placement[op], loads, strict=True):
                interval = model.new_optional_fixed_size_interval_var(position[op], 1, literal, "")
                load.append((interval, amount))
    for index, resident in enumerate(parts.residents):
        add = _add_given if resident.producer < 0 else _add_produced
        for device, interval in add(model, parts, variables, placement, index):
            loads[device].append((interval, resident.size))
    for load, peak in zip(loads, peaks, strict=True):
        model.add_cumulative(*_columns(load), peak)
    if len(placement[0]) > 1:
        model.add_cumulative(*_columns(_anywhere(model, parts, variables)), together)
    return variables


def hint_values(
    graph: ComputationGraph,
    parts: MemoryParts,
    variables: MemoryVariables,
    schedule: Schedule,
    number: np.ndarray,
) -> Iterator[tuple[Any, int]]:
    """(variable, value) of all variables of memory in a schedule with its devices renumbered."""
    placement = number[schedule.placement].tolist()
    position, arrival = _ranks(graph, parts, schedule, number)
    yield from ((variables.position[op], rank) for op, rank in enumerate(position))
    for (readers, device), literal in variables.needed.items():
        yield literal, int(any(placement[op] == device for op in readers))
    for key, literal in variables.moved.items():
        yield literal, int(key in arrival)
    for key, start, end in _spans(parts, placement, position, arrival, schedule.num_devices):
        for values, value in (
            (variables.arrival, start),
            (variables.end, end),
            (variables.length, end - start),
        ):
            if key in values:
                yield values[key], value


def _ranks(
    graph: ComputationGraph, parts: MemoryParts, schedule: Schedule, number: np.ndarray
) -> tuple[list[int], dict[tuple[int, int], int]]:
    """The positions of ops, and of transfers by resident and device, in a schedule."""
    resident_of = {one.tensor: index for index, one in enumerate(parts.residents)}
    position, arrival, rank = [0] * graph.num_ops, {}, 0
    for step in schedule.steps.tolist():
        tensor, device = divmod(step - graph.num_ops, schedule.num_devices)
        if step < graph.num_ops:
            position[step] = rank
        elif tensor in resident_of:
            arrival[resident_of[tensor], int(number[device])] = rank
        else:
            continue
        rank += 1
    return position, arrival


def _spans(
    parts: MemoryParts,
    placement: Sequence[int],
    position: Sequence[int],
    arrival: dict[tuple[int, int], int],
    num_devices: int,
) -> Iterator[tuple[tuple[int, int], int, int]]:
    """(key of ``MemoryVariables.end``, start, end) of every copy, present or not."""
    leaves: dict[int, list[int]] = {}
    for (index, _), rank in arrival.items():
        leaves.setdefault(index, []).append(rank)
    for index, (_, producer, _, persistent, readers) in enumerate(parts.residents):
        made, home = (position[producer], placement[producer]) if producer >= 0 else (0, -1)
        everywhere = [position[op] for op in readers]
        at_home = [position[op] for op in readers if placement[op] == home] + leaves.get(index, [])
        for device, uses in ((ANYWHERE, everywhere), (HOME, at_home)):
            end = parts.num_positions if persistent else max(uses, default=made) + 1
            yield (index, device), made, end
        for device in range(num_devices):
            start = arrival.get((index, device), made)
            here = [position[op] for op in readers if placement[op] == device]
            uses = everywhere if len(readers) == 1 else here
            yield (index, device), start, max(uses, default=start) + 1


def _residents(graph: ComputationGraph, unit: int, num_devices: int) -> list[Resident]:
    """Tensors that stay longer than a step; those that live alike under any schedule are one.

    Copies of two tensors may arrive at different times, so only tensors without transfers merge.
    """
    groups: dict[tuple, tuple[int, int]] = {}
    for tensor in np.flatnonzero(graph.size > 0).tolist():
        readers = tuple(sorted(graph.consumers.row(tensor).tolist()))
        producer, persistent = int(graph.producer[tensor]), bool(graph.persistent[tensor])
        if not readers and (producer < 0 or not persistent):
            continue
        apart = tensor if producer >= 0 and num_devices > 1 else -1
        key = (producer, persistent, readers, apart)
        first, size = groups.get(key, (tensor, 0))
        groups[key] = (first, size + int(graph.size[tensor]) // unit)
    return [
        Resident(first, producer, size, persistent, readers)
        for (producer, persistent, readers, _), (first, size) in groups.items()
    ]


def _positions(model, graph: ComputationGraph, num_positions: int) -> list[Any]:
    """An op's position leaves room for all before and all after it."""
    descendants = precedence.unpack(precedence.closure(graph))
    before, after = descendants.sum(axis=0).tolist(), descendants.sum(axis=1).tolist()
    position = [
        model.new_int_var(low, num_positions - 1 - high, "")
        for low, high in zip(before, after, strict=True)
    ]
    for one, other in precedence.transitive_reduction(graph).tolist():
        model.add(position[one] + 1 <= position[other])
    return position


Copies = Iterator[tuple[int, Any]]
"""(device, interval) of each copy that a resident may have."""


def _add_given(
    model, parts: MemoryParts, variables: MemoryVariables, placement: Placement, index: int
) -> Copies:
    """A tensor without producer: present from the start where it is needed."""
    resident, last = parts.residents[index], parts.num_positions
    for device in range(len(placement[0])):
        needed = _needed(model, variables, placement, resident.readers, device)
        end: Any = last
        if not resident.persistent:
            here = {op: [placement[op][device]] for op in resident.readers}
            end = _end(model, variables, (index, device), here, last)
        yield device, _interval(model, variables, (index, device), 0, end, needed, last)


def _add_produced(
    model, parts: MemoryParts, variables: MemoryVariables, placement: Placement, index: int
) -> Copies:
    """A tensor with a producer: at its home, and a copy on each other device that needs it."""
    resident, last = parts.residents[index], parts.num_positions
    made, home = variables.position[resident.producer], placement[resident.producer]
    end: Any = last
    if not resident.persistent:
        end = _home_end(model, variables, placement, (index, HOME), resident, last)
    for device, literal in enumerate(home):
        yield device, _interval(model, variables, (index, HOME), made, end, literal, last)
    if len(home) == 1 or not resident.readers:
        return
    for device in range(len(home)):
        moved = _moved(model, variables, placement, index, resident, device)
        arrival = _arrival(model, variables, placement, (index, device), resident, moved, last)
        if not resident.persistent:
            model.add(end >= arrival + 1)
        here = {op: [placement[op][device]] for op in resident.readers}
        copy_end = _end(model, variables, (index, device), here, last)
        key = (index, device)
        yield device, _interval(model, variables, key, arrival, copy_end, moved, last)


def _anywhere(model, parts: MemoryParts, variables: MemoryVariables) -> Iterator[tuple[Any, int]]:
    """(interval, units) of what is in memory on one device at least, or more units elsewhere too.

    A tensor is, from when it is made to its last use: its home keeps it until the last transfer.
    """
    last = parts.num_positions
    for op, amount in enumerate(parts.instant):
        yield model.new_fixed_size_interval_var(variables.position[op], 1, ""), amount
    for index, resident in enumerate(parts.residents):
        key, end = (index, ANYWHERE), last
        start = variables.position[resident.producer] if resident.producer >= 0 else 0
        if not resident.persistent:
            end = _end(model, variables, key, {op: [] for op in resident.readers}, last)
        yield _interval(model, variables, key, start, end, True, last), resident.size


def _columns(load: Iterable[tuple[Any, int]]) -> tuple[list[Any], list[int]]:
    intervals, units = zip(*load, strict=True) if (load := list(load)) else ((), ())
    return list(intervals), list(units)


def _needed(model, variables, placement: Placement, readers: tuple[int, ...], device: int):
    """Whether one of the readers runs on the device."""
    literals = [placement[op][device] for op in readers]
    if len(literals) == 1:
        return literals[0]
    if (readers, device) not in variables.needed:
        needed = variables.needed[readers, device] = model.new_bool_var("")
        model.add_max_equality(needed, literals)
    return variables.needed[readers, device]


def _moved(model, variables, placement: Placement, index: int, resident: Resident, device: int):
    """Whether the device needs the resident and isn't its home."""
    needed = _needed(model, variables, placement, resident.readers, device)
    home = placement[resident.producer][device]
    moved = variables.moved[index, device] = model.new_bool_var("")
    model.add_bool_or([moved, home, ~needed])
    model.add_implication(moved, needed)
    model.add_implication(moved, ~home)
    return moved


def _arrival(model, variables, placement: Placement, key, resident: Resident, moved, last: int):
    """The position of a transfer; without one, the producer's."""
    made = variables.position[resident.producer]
    arrival = variables.arrival[key] = model.new_int_var(0, last - 1, "")
    model.add(arrival >= made)
    model.add(arrival == made).only_enforce_if(~moved)
    for op in resident.readers:
        here = placement[op][key[1]]
        model.add(arrival <= variables.position[op]).only_enforce_if(here)
    return arrival


def _end(model, variables: MemoryVariables, key, uses: dict[int, list[Literal]], last: int):
    """The position after the last reader whose literals all hold; a sole reader always counts."""
    if len(uses) == 1:
        return variables.position[next(iter(uses))] + 1
    end = variables.end[key] = model.new_int_var(1, last, "")
    for op, literals in uses.items():
        model.add(end >= variables.position[op] + 1).only_enforce_if(literals)
    return end


def _home_end(model, variables: MemoryVariables, placement: Placement, key, resident, last: int):
    """The position after the last reader at home; those after transfers are left to the caller."""
    home, position = placement[resident.producer], variables.position
    if len(home) == 1:
        return _end(model, variables, key, dict.fromkeys(resident.readers, home), last)
    end = variables.end[key] = model.new_int_var(1, last, "")
    for op in resident.readers:
        for literals in zip(home, placement[op], strict=True):
            model.add(end >= position[op] + 1).only_enforce_if(literals)
    return end


def _interval(model, variables, key: tuple[int, int], start, end, presence, last: int):
    if isinstance(end - start, int):
        return model.new_optional_fixed_size_interval_var(start, end - start, presence, "")
    if key not in variables.length:
        variables.length[key] = model.new_int_var(0, last, "")
        model.add(variables.length[key] == end - start)
    return model.new_optional_interval_var(start, variables.length[key], end, presence, "")

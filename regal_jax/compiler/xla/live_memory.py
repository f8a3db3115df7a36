"""The memory of a module step by step: what each buffer holds, from when on, and who reads it.

The accounting of the timeline: a buffer counts from the step that makes it to its last reader's,
both included (``buffers``). Parameters and constants count throughout, donated ones to their last
reader's step; then counts the output that takes their memory. The use of a step is the sum of all
buffers in use, the peak its maximum over the steps.
"""

import dataclasses
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from regal_jax.compiler.xla.buffers import Buffer, Kind, Walk, taken_over, walked
from regal_jax.graphs.importers.xla.text import (
    Array,
    Computation,
    Instruction,
    Module,
    Shape,
    leaves,
)


class Value(NamedTuple):
    """An array that an instruction makes.

    Attributes:
      step: of the instruction.
      array: its shape.
      operands: numbers of the values that it is made of.
      reads: steps of its readers, ascending. Those of a loop's state are its first value's.
      memory: the number of the buffer that it is in.
      home: the same number for values that are in one memory in every order; other values may be
        in one memory just because the one is read last where the other is made.
    """

    step: int
    array: Array
    operands: tuple[int, ...]
    reads: tuple[int, ...]
    memory: int
    home: int


@dataclasses.dataclass(frozen=True)
class Memory:
    """A buffer.

    Attributes:
      num_bytes: its size.
      kind: what it is; an output is what the entry returns.
      first, last: steps between which it is in use, included; never if ``first > last``.
      values: numbers of what is written into it, in order of their steps.
      reads: steps of all readers, ascending.
      donor: the number of the donated parameter whose memory an output takes, or None.
    """

    num_bytes: int
    kind: Kind
    first: int
    last: int
    values: tuple[int, ...]
    reads: tuple[int, ...]
    donor: int | None


class Call(NamedTuple):
    """The steps of one run of a body or more, and the values given to what runs them."""

    first: int
    last: int
    operands: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class LiveMemory:
    """The steps of a module, what they make and read, and where that is.

    Attributes:
      steps: (computation, instruction) of every step.
      values: all arrays made, in order of the steps.
      memories: all buffers, parameters and constants included.
      calls: the runs of bodies.
    """

    steps: Sequence[tuple[str, str]]
    values: Sequence[Value]
    memories: Sequence[Memory]
    calls: Sequence[Call]

    def live_bytes(self, *kinds: Kind) -> np.ndarray:
        """int64[S]: bytes in use at every step by buffers of these kinds; of all by default."""
        changes = np.zeros(len(self.steps) + 1, np.int64)
        for memory in self.memories:
            if (not kinds or memory.kind in kinds) and memory.first <= memory.last:
                changes[memory.first] += memory.num_bytes
                changes[memory.last + 1] -= memory.num_bytes
        return np.cumsum(changes[:-1])

    def live_at(self, step: int) -> list[int]:
        """Numbers of the buffers in use at a step, the largest first."""
        live = [n for n, memory in enumerate(self.memories) if memory.first <= step <= memory.last]
        return sorted(live, key=lambda number: -self.memories[number].num_bytes)

    def held(self, memory: int, step: int) -> int:
        """The number of the value that a buffer holds at a step; its first if it is empty yet."""
        values = self.memories[memory].values
        place = bisect_right(values, step, key=lambda number: self.values[number].step)
        return values[max(place - 1, 0)]

    def readers(self, memory: int, step: int) -> tuple[int, ...]:
        """Steps that read what a buffer holds at a step, ascending; an overwriter is one of them.

        Those of a loop's state are the readers of all that is written in its place.
        """
        one, value = self.memories[memory], self.held(memory, step)
        later = bisect_right(one.values, value)
        overwritten = self.values[one.values[later]].step if later < len(one.values) else one.last
        start = bisect_right(one.reads, self.values[value].step)
        return one.reads[start : bisect_right(one.reads, overwritten)]

    def idle(self, memory: int, step: int) -> tuple[int, int | None] | None:
        """(last use before a step, next reader after it or None) of what a buffer holds.

        None where it is made or read at the step itself. Parameters and constants are there from
        step 0 on, whenever their instructions come.
        """
        readers, made = self.readers(memory, step), self.values[self.held(memory, step)].step
        start = made if made <= step else self.memories[memory].first
        before = max([start, *(reader for reader in readers if reader <= step)])
        after = next((reader for reader in readers if reader > step), None)
        return None if before == step else (before, after)


def live_memory(module: Module) -> LiveMemory:
    """The memory of a module in the order of its text."""
    walk = _Recorder(module)
    parts = walked(walk).parts
    homes = walk.homes()
    assert max(homes, default=-1) + 1 == len(parts)
    memories, memory_of = _memories(parts, walk, homes)
    return LiveMemory(walk.steps, _values(walk, homes, memory_of), memories, walk.calls)


class _Recorder(Walk):
    """A walk over a module that keeps who made and who read every array."""

    def __init__(self, module: Module):
        super().__init__(module)
        self.calls: list[Call] = []
        self.arrays: list[tuple[int, Array]] = []
        self.reads: list[list[int]] = []

    def homes(self) -> list[int]:
        """For every array, the place of its buffer among the distinct ones."""
        roots = [self._root(number) for number in range(len(self.arrays))]
        place = {root: number for number, root in enumerate(sorted(set(roots)))}
        return [place[root] for root in roots]

    def _new(
        self, computation: Computation, one: Instruction, shape: Shape, kind: Kind
    ) -> list[int]:
        made = super()._new(computation, one, shape, kind)
        self.arrays += [(len(self.steps) - 1, array) for array in leaves(shape)]
        self.reads += [[] for _ in made]
        return made

    def _read(self, value: Iterable[int]) -> None:
        value = list(value)
        super()._read(value)
        for leaf in value:
            self.reads[leaf].append(len(self.steps) - 1)

    def _call(
        self, computation: Computation, one: Instruction, operands: list[list[int]]
    ) -> list[int]:
        start = len(self.steps)
        result = super()._call(computation, one, operands)
        self.calls.append(Call(start, len(self.steps) - 1, _flat(operands)))
        return result


def _values(walk: _Recorder, homes: Sequence[int], memory_of: Sequence[int]) -> list[Value]:
    operands = {result: _flat(made.operands) for made in walk.made for result in made.results}
    columns = zip(walk.arrays, walk.reads, homes, strict=True)
    return [
        Value(step, array, operands.get(leaf, ()), tuple(reads), memory_of[home], home)
        for leaf, ((step, array), reads, home) in enumerate(columns)
    ]


def _memories(
    parts: Sequence[Buffer], walk: _Recorder, homes: Sequence[int]
) -> tuple[list[Memory], list[int]]:
    """The buffers when some have taken over others' memory, and which one each part is in."""
    number = {id(part): n for n, part in enumerate(parts)}
    groups = sorted(taken_over(parts), key=lambda group: number[id(group[0])])
    place = {id(part): n for n, group in enumerate(groups) for part in group}
    memory_of = [place[id(part)] for part in parts]
    written: list[list[int]] = [[] for _ in groups]
    for leaf, home in enumerate(homes):
        written[memory_of[home]].append(leaf)
    return [
        _memory(group, sorted(values), walk, place)
        for group, values in zip(groups, written, strict=True)
    ], memory_of


def _memory(
    group: Sequence[Buffer], values: Sequence[int], walk: _Recorder, place: Mapping[int, int]
) -> Memory:
    first, last = group[0].first, group[-1].last
    donor = None if group[-1].donor is group[-1] else group[-1].donor
    if donor is not None:
        first = max(first, donor.last + 1)
    return Memory(
        num_bytes=group[0].num_bytes,
        kind=group[-1].kind,
        first=first,
        last=last,
        values=tuple(values),
        reads=tuple(sorted({step for leaf in values for step in walk.reads[leaf]})),
        donor=None if donor is None else place[id(donor)],
    )


def _flat(operands: Iterable[Iterable[int]]) -> tuple[int, ...]:
    return tuple(leaf for operand in operands for leaf in operand)

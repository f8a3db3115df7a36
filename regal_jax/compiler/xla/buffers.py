"""The buffers of an XLA module and when each is in use, by the rules of XLA's buffer assignment.

A step is one run of one instruction; those of a called computation come where it is called (once,
for a loop). A buffer is in use from the step that makes it to its last reader's, both included.
Other names of a buffer are the buffer: tuples and their elements, bitcasts, what goes into and
comes out of a computation. Written in place are a loop's state and, of scatters and
dynamic-update-slices, alone or as what a fusion returns, the first operand. Where the last reader
of an operand is elementwise in it and makes an array of the same shape, that array is made in its
memory (``HloDataflowAnalysis::CanShareOperandBufferWithUser``; XLA may, and does). The result of a
conditional is in use from the end of the first branch on, which is too early for the others.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from regal_jax.compiler.xla import in_place
from regal_jax.graphs.importers.xla.module import ALIASES, bodies, donations, result_shape
from regal_jax.graphs.importers.xla.text import (
    Array,
    Computation,
    Instruction,
    Module,
    Shape,
    leaves,
)

Kind = Literal["parameter", "constant", "output", "temporary"]


@dataclasses.dataclass(eq=False)
class Buffer:
    """Memory that one or several instructions write, one after the other.

    Attributes:
      writers: (computation, instruction) of every write, in order.
      num_bytes: its size.
      first, last: the steps between which it is in use, included.
      kind: an output is what the entry returns; parameters and constants are there throughout.
      donor: the donated parameter whose memory an output takes, or None. It is there until its last
        reader.
      takes: buffers that are read last where this one is made, and in whose memory that may be.
      is_copy: whether it is made by a copy.
    """

    writers: list[tuple[str, str]]
    num_bytes: int
    first: int
    last: int
    kind: Kind = "temporary"
    donor: "Buffer | None" = None
    takes: "tuple[Buffer, ...]" = ()
    is_copy: bool = False


class Allocation(NamedTuple):
    """Steps and buffers of a module.

    Attributes:
      steps: (computation, instruction) of every step.
      parts: the buffers, parameters and constants included, before any takes another's memory.
    """

    steps: list[tuple[str, str]]
    parts: list[Buffer]


def allocate(module: Module) -> Allocation:
    """The buffers of a module in the order of its text."""
    return walked(Walk(module))


def walked(walk: "Walk") -> Allocation:
    """The buffers of a module that is walked here."""
    entry = walk.module.computations[walk.module.entry]
    results = walk.run(entry, None)
    end = len(walk.steps) - 1
    for leaf in results:
        buffer = walk.buffer(leaf)
        buffer.last = end
        if buffer.kind == "temporary":
            buffer.kind = "output"
    walk.donate(entry, results)
    donors = {id(buffer.donor) for buffer in walk.buffers}
    for buffer in walk.buffers:
        if buffer.kind in ("parameter", "constant"):
            buffer.first = 0
            buffer.last = buffer.last if id(buffer) in donors else end
    walk.find_takes()
    return Allocation(walk.steps, walk.distinct())


def taken_over(parts: Iterable[Buffer]) -> list[list[Buffer]]:
    """Groups of buffers in one memory, in the order they are written.

    Each takes the memory of the first temporary one that it can, and that no other has taken.
    """
    groups: dict[int, list[Buffer]] = {}  # by the part that was written last
    for part in sorted(parts, key=lambda part: part.first):
        free = (p for p in part.takes if id(p) in groups and _may_take(part, p))
        source = next(free, None)
        group = [] if source is None else groups.pop(id(source))
        groups[id(part)] = group
        group.append(part)
    return list(groups.values())


def _may_take(part: Buffer, source: Buffer) -> bool:
    """Whether a buffer can be in another's memory: not if a donated parameter was there too."""
    if source.kind != "temporary":
        return False
    return part.donor is None or (source.first > part.donor.last and not source.takes)


class _Made(NamedTuple):
    """An instruction that made arrays in new buffers, and the buffers that it read."""

    step: int
    computation: str
    instruction: Instruction
    operands: list[list[int]]
    results: list[int]


class Walk:
    """A module being run step by step; a value is the list of its leaves' buffers, by number.

    ``_same[n]`` is n, or another number of the same buffer (union-find).
    """

    def __init__(self, module: Module):
        self.module = module
        self.steps: list[tuple[str, str]] = []
        self.buffers: list[Buffer] = []
        self.made: list[_Made] = []
        self.arguments: dict[str, list[int]] = {}
        self._same: list[int] = []

    def buffer(self, number: int) -> Buffer:
        return self.buffers[self._root(number)]

    def distinct(self) -> list[Buffer]:
        return [b for number, b in enumerate(self.buffers) if self._same[number] == number]

    def run(self, computation: Computation, arguments: list[list[int]] | None) -> list[int]:
        """Walks a computation; the buffers of its root. ``arguments``: None for the entry."""
        values: dict[str, list[int]] = {}
        for one in computation.instructions.values():
            self.steps.append((computation.name, one.name))
            values[one.name] = self._value(computation, one, values, arguments)
            if one.opcode not in NAMES:
                for operand in one.operands:
                    self._read(values[operand])
        return values[computation.root]

    def donate(self, entry: Computation, results: list[int]) -> None:
        """Tells outputs whose memory they take."""
        parameters = [one for one in entry.instructions.values() if one.opcode == "parameter"]
        number = {int(one.arguments): one for one in parameters}
        for output, parameter, part in donations(self.module.header):
            source = number[parameter]
            target = leaf_range(entry.instructions[entry.root].shape, output).start
            first = self.arguments[source.name][leaf_range(source.shape, part).start]
            self.buffer(results[target]).donor = self.buffer(first)

    def find_takes(self) -> None:
        """Tells buffers whose memory they may take."""
        for made in self.made:
            for result in made.results:
                target = self.buffer(result)
                if target.first == made.step and target.kind in ("temporary", "output"):
                    target.takes = tuple(self._free_operands(made, target))
                    target.is_copy = made.instruction.opcode == "copy"

    def _value(
        self,
        computation: Computation,
        one: Instruction,
        values: Mapping[str, list[int]],
        arguments: list[list[int]] | None,
    ) -> list[int]:
        operands = [values[name] for name in one.operands]
        if one.opcode == "parameter" and arguments is not None:
            return arguments[int(one.arguments)]
        if one.opcode == "parameter":
            self.arguments[one.name] = self._new(computation, one, one.shape, "parameter")
            return self.arguments[one.name]
        if one.opcode == "constant":
            return self._new(computation, one, one.shape, "constant")
        if one.opcode in ("tuple", "after-all"):
            return [leaf for operand in operands for leaf in operand]
        if one.opcode == "get-tuple-element":
            shape = computation.instructions[one.operands[0]].shape
            part = leaf_range(shape, [int(one.attribute("index") or 0)])
            return operands[0][part.start : part.stop]
        if one.opcode in ALIASES:
            return operands[0]
        if bodies(one):
            return self._call(computation, one, operands)
        return self._make(computation, one, operands)

    def _call(
        self, computation: Computation, one: Instruction, operands: list[list[int]]
    ) -> list[int]:
        called = [self.module.computations[name] for name in bodies(one)]
        if one.opcode == "while":
            condition = one.called("condition")
            for body in sorted(called, key=lambda body: body.name not in condition):
                result = self.run(body, operands)
                if body.name not in condition:
                    self._join_all(operands[0], result)
            return operands[0]
        if one.opcode == "conditional":
            results = [
                self.run(body, [given]) for body, given in zip(called, operands[1:], strict=True)
            ]
            for other in results[1:]:
                self._join_all(results[0], other)
            return results[0]
        return self.run(called[0], operands)

    def _make(
        self, computation: Computation, one: Instruction, operands: list[list[int]]
    ) -> list[int]:
        shape = result_shape(computation, one)
        results = self._new(computation, one, shape, "temporary")
        for index, operand in in_place.required(self.module, one):
            if operand < len(operands) and len(operands[operand]) == 1:
                self._join(operands[operand][0], results[index])
        step = len(self.steps) - 1
        self.made.append(_Made(step, computation.name, one, operands, results))
        return results

    def _new(
        self, computation: Computation, one: Instruction, shape: Shape, kind: Kind
    ) -> list[int]:
        step = len(self.steps) - 1
        first = len(self.buffers)
        for array in leaves(shape):
            writers = [(computation.name, one.name)]
            self.buffers.append(Buffer(writers, array.num_bytes, step, step, kind))
        self._same += range(first, len(self.buffers))
        return list(range(first, len(self.buffers)))

    def _read(self, value: Iterable[int]) -> None:
        for leaf in value:
            buffer = self.buffer(leaf)
            buffer.last = max(buffer.last, len(self.steps) - 1)

    def _free_operands(self, made: _Made, target: Buffer) -> Iterator[Buffer]:
        """The operands' buffers in whose memory a result may be made."""
        for index, operand in enumerate(made.operands):
            for source in map(self.buffer, operand):
                if (
                    source is not target
                    and source.last == made.step
                    and source.num_bytes == target.num_bytes
                    and in_place.allowed(self.module, made.computation, made.instruction, index)
                ):
                    yield source

    def _join_all(self, left: list[int], right: list[int]) -> None:
        for a, b in zip(left, right, strict=True):
            self._join(a, b)

    def _join(self, left: int, right: int) -> None:
        """Two buffers are one from now on."""
        left, right = self._root(left), self._root(right)
        if left == right:
            return
        kept, gone = self.buffers[left], self.buffers[right]
        kept.writers += gone.writers
        kept.num_bytes = max(kept.num_bytes, gone.num_bytes)
        kept.first, kept.last = min(kept.first, gone.first), max(kept.last, gone.last)
        kept.kind = min(kept.kind, gone.kind, key=_KINDS.index)
        self._same[right] = left

    def _root(self, number: int) -> int:
        while self._same[number] != number:
            self._same[number] = self._same[self._same[number]]
            number = self._same[number]
        return number


_KINDS: tuple[Kind, ...] = ("parameter", "constant", "output", "temporary")

NAMES = frozenset(("tuple", "get-tuple-element", "after-all", "parameter", "constant")) | ALIASES
"""Instructions that neither make nor read memory."""


def leaf_range(shape: Shape, path: Sequence[int]) -> range:
    """Which leaves of a shape are those of the part at a path."""
    start = 0
    for index in path:
        assert not isinstance(shape, Array)
        start += sum(1 for part in shape[:index] for _ in leaves(part))
        shape = shape[index]
    return range(start, start + sum(1 for _ in leaves(shape)))

"""A reader of XLA's HLO text: modules, computations and instructions, in the order they stand in.

Understood are the long and the short form: operands with or without shapes and ``%``, layouts,
comments, nested tuples, quoted strings anywhere.
"""

import dataclasses
import graphlib
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple, Union

from regal_jax.errors import ImporterError

BODIES = (
    *("calls", "to_apply", "body"),
    *("branch_computations", "true_computation", "false_computation"),
)
"""Attributes that name what an instruction runs; not a while's condition."""

DEEPEST = 64
"""Tuples and calls may be nested so deep: far more than compilers make, and little to recurse."""

MOST_BYTES = 2**53
"""Bytes that an array may have: what a graph's sizes may be, too."""

MOST_STEPS = 10**7
"""Instructions that a module may have once every call is written out."""


class Array(NamedTuple):
    """The shape of an array; tokens are arrays of type ``token``.

    ``space`` is where it lies: 0 is the device's main memory, others are on the chip (a TPU's
    scratch memory) or with the host, and take no bytes of it.
    """

    dtype: str
    dims: tuple[int, ...]
    space: int = 0

    @property
    def elements(self) -> int:
        return math.prod(self.dims)

    @property
    def num_bytes(self) -> int:
        """In the device's main memory."""
        return 0 if self.space else -(-self.elements * element_bits(self.dtype) // 8)


Shape = Union[Array, "tuple[Shape, ...]"]


class Instruction(NamedTuple):
    """One line of a computation.

    ``attributes`` is the text after the operands, strings included. ``arguments`` is the text in
    the parentheses of a constant or parameter.
    """

    name: str
    opcode: str
    shape: Shape
    operands: tuple[str, ...]
    arguments: str
    attributes: str
    is_root: bool

    def attribute(self, key: str) -> str | None:
        """The value of ``key=value``: a word, or what is between its braces."""
        match = re.search(
            rf"(?:^|[ ,]){key}=(?:\{{([^{{}}]*)\}}|\"([^\"]*)\"|([^,{{}} ]+))", self.attributes
        )
        return None if match is None else next(g for g in match.groups() if g is not None)

    def called(self, *keys: str) -> list[str]:
        """Names of the computations that these attributes name."""
        values = [self.attribute(key) for key in keys]
        return [name.strip().lstrip("%") for value in values if value for name in value.split(",")]


@dataclasses.dataclass(frozen=True)
class Computation:
    """Instructions by name, in the order of the text, and the name of the root."""

    name: str
    instructions: Mapping[str, Instruction]
    root: str

    def source(self, name: str, opcodes: Collection[str]) -> Instruction:
        """What an instruction is made of by instructions of these opcodes alone, each of its first
        operand; the instruction itself, if it is of another."""
        while (one := self.instructions[name]).opcode in opcodes:
            name = one.operands[0]
        return one


@dataclasses.dataclass(frozen=True)
class Module:
    """A module: the rest of its first line, its computations by name, the name of the entry."""

    name: str
    header: str
    computations: Mapping[str, Computation]
    entry: str

    @property
    def is_scheduled(self) -> bool:
        return "is_scheduled=true" in self.header


def parse_module(text: str) -> Module:
    """Parses the text of a module.

    Raises ImporterError with the line number; also for computations that call each other in
    circles, or are nested deeper than DEEPEST or written out longer than MOST_STEPS.
    """
    name = header = entry = current = ""
    computations: dict[str, Computation] = {}
    instructions: dict[str, Instruction] = {}
    for number, line in enumerate(text.split("\n"), 1):
        line = _COMMENT.sub("", line) if "/*" in line else line
        if line.startswith("HloModule"):
            name, _, header = line.removeprefix("HloModule").strip().partition(",")
        elif line.rstrip().endswith("{") and (head := _HEAD.match(line)):
            current, instructions = head.group(2), {}
            entry = current if head.group(1) else entry
        elif line.strip().startswith("}"):
            computations[current] = _computation(current, instructions, number)
            current = ""
        elif current and line.strip():
            instruction = _instruction(line, number)
            instructions[instruction.name] = instruction
    if current or not entry:
        raise ImporterError("not the text of an HLO module, or cut off: it has no whole ENTRY")
    _check_calls(computations)
    return Module(name, header, computations, entry)


def leaves(shape: Shape) -> Iterator[Array]:
    """The arrays of a shape, depth first."""
    if isinstance(shape, Array):
        yield shape
    else:
        for part in shape:
            yield from leaves(part)


def num_bytes(shape: Shape) -> int:
    return sum(array.num_bytes for array in leaves(shape))


def num_elements(shape: Shape) -> int:
    return sum(array.elements for array in leaves(shape))


def element_bits(dtype: str) -> int:
    """Bits of an element of a type. ImporterError for an unknown one."""
    if dtype in ("token", "opaque"):
        return 0
    if dtype == "pred":
        return 8
    match = re.fullmatch(r"(?:c|s|u|bf|f)(\d+)\w*", dtype)
    if match is None:
        raise ImporterError(f"unknown HLO element type {dtype!r}")
    return int(match.group(1))


_COMMENT = re.compile(r"/\*.*?\*/")
_HEAD = re.compile(r"\s*(ENTRY\s+)?%?([\w.\-]+)\s*(?:\(.*)?(?:->.*)?\{\s*$")
_START = re.compile(r"\s*(ROOT\s+)?%?([\w.\-]+)\s*=\s*")
_ARRAY = re.compile(r"([a-z]\w*)(?:\[([^\]]*)\])?(\{[^{}]*\})?")
_OPCODE = re.compile(r"\s*([\w\-]+)\(")


def _computation(name: str, instructions: dict[str, Instruction], line: int) -> Computation:
    roots = [one.name for one in instructions.values() if one.is_root]
    if not name or not instructions:
        raise ImporterError(f"line {line}: a computation without instructions")
    return Computation(name, instructions, roots[-1] if roots else list(instructions)[-1])


def _check_calls(computations: Mapping[str, Computation]) -> None:
    """Raises ImporterError for calls that no reader comes to the end of."""
    calls = {name: [*_calls(one, computations)] for name, one in computations.items()}
    depth: dict[str, int] = {}
    steps: dict[str, int] = {}
    try:
        for name in graphlib.TopologicalSorter(calls).static_order():
            depth[name] = 1 + max((depth[called] for called in calls[name]), default=0)
            own = len(computations[name].instructions)
            steps[name] = own + sum(steps[called] for called in calls[name])
            if depth[name] > DEEPEST:
                raise ImporterError(f"computation {name!r}: calls nested deeper than {DEEPEST}")
            if steps[name] > MOST_STEPS:
                raise ImporterError(f"computation {name!r} runs more than {MOST_STEPS} steps")
    except graphlib.CycleError as error:
        raise ImporterError(f"computation {error.args[1][0]!r} calls itself") from None


def _calls(one: Computation, computations: Mapping[str, Computation]) -> Iterator[str]:
    """The computations that instructions name, once for each time."""
    for instruction in one.instructions.values():
        for match in _CALLED.finditer(instruction.attributes):
            names = (name.strip().lstrip("%") for name in match.group(1).strip("{}").split(","))
            yield from (name for name in names if name in computations)


_CALLED = re.compile(rf"\b(?:{'|'.join(BODIES)}|condition)=(\{{[^{{}}]*\}}|[^,{{}} ]+)")


def _instruction(line: str, number: int) -> Instruction:
    start = _START.match(line)
    if start is None:
        raise ImporterError(f"line {number}: expected an instruction, found {line.strip()[:40]!r}")
    try:
        shape, position = _shape(line, start.end())
        opcode = _OPCODE.match(line, position)
        if opcode is None:
            raise ValueError("no opcode")
        end = _closing(line, opcode.end())
        inside = line[opcode.end() : end]
    except (ValueError, ImporterError) as error:
        raise ImporterError(f"line {number}: can't read {line.strip()[:40]!r} ({error})") from None
    literal = opcode.group(1) in ("constant", "parameter", "iota")
    operands = () if literal else tuple(_operands(inside))
    rest = line[end + 1 :].lstrip(", ")
    root = bool(start.group(1))
    return Instruction(start.group(2), opcode.group(1), shape, operands, inside, rest, root)


def _shape(line: str, position: int, depth: int = 0) -> tuple[Shape, int]:
    """The shape that starts at a position, and where it ends."""
    if depth > DEEPEST:
        raise ValueError(f"tuples nested deeper than {DEEPEST}")
    if line[position] != "(":
        match = _ARRAY.match(line, position)
        if match is None:
            raise ValueError("no shape")
        dims = (dim.strip().removeprefix("<=") for dim in (match.group(2) or "").split(","))
        space = _SPACE.search(match.group(3) or "")
        array = _array(match.group(1), [dim for dim in dims if dim])
        return array._replace(space=int(space.group(1)) if space else 0), match.end()
    parts: list[Shape] = []
    position += 1
    while line[position] != ")":
        part, position = _shape(line, position, depth + 1)
        parts.append(part)
        while line[position] in ", ":
            position += 1
    return tuple(parts), position + 1


_SPACE = re.compile(r"S\((\d{1,3})\)")


def _array(dtype: str, dims: list[str]) -> Array:
    if not all(dim.isascii() and dim.isdigit() and len(dim) < 19 for dim in dims):
        raise ValueError("a dimension that is no size")
    array = Array(dtype, tuple(map(int, dims)))
    if array.num_bytes > MOST_BYTES:
        raise ValueError("more than 2**53 bytes")
    return array


def _closing(line: str, position: int) -> int:
    """Where the parenthesis closes that was opened before a position."""
    depth = 1
    for match in _BRACKETS.finditer(line, position):
        depth += {"(": 1, ")": -1}.get(match.group(), 0)
        if depth == 0:
            return match.start()
    raise ValueError("an open parenthesis")


_BRACKETS = re.compile(r'[()]|"(?:[^"\\]|\\.)*"')


def _operands(inside: str) -> Iterator[str]:
    """Names among operands, which may have shapes before them."""
    if "%" in inside:
        return (match.group(1) for match in _PERCENT.finditer(inside))
    without_shapes = _SHAPES.sub("", inside)
    return (part.split()[-1] for part in without_shapes.split(",") if part.strip())


_PERCENT = re.compile(r"%([\w.\-]+)")
_SHAPES = re.compile(r"\b[a-z]\w*\[[^\]]*\](?:\{[^{}]*\})?|\([^()]*\)(?=\s)")

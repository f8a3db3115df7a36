"""The line of Python that each instruction of an XLA module comes from.

New texts have tables of stack frames at their top, and ``stack_frame_id=N`` in the metadata of
instructions; older ones ``source_file="..." source_line=N``. Of a stack the innermost frame counts
that isn't in a library (installed packages, Python's own, JAX); the innermost of all if there is
none.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from regal_jax.graphs.importers.xla.module import ALIASES
from regal_jax.graphs.importers.xla.text import Computation, Instruction, Module


class SourceLine(NamedTuple):
    """Where in a program. ``function`` is its qualified name, "" where unknown."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Origin(NamedTuple):
    """What an instruction is of.

    Attributes:
      op_name: the path of transformations, modules and the primitive; of a parameter its name,
        like ``params['a']``; "" where unknown.
      source: the line, None where unknown.
    """

    op_name: str
    source: SourceLine | None


def origins(module: Module, text: str) -> dict[tuple[str, str], Origin]:
    """The origin of every instruction of a module, by (computation, instruction).

    A fusion without metadata has its body's: the root's, else that of what the root is made of.
    Copies and other names without metadata have their operand's, and so have fusions of such.

    Args:
      module: the module.
      text: what it was parsed from; the tables of stack frames are in it.
    """
    lines = _frame_lines(text)
    found: dict[tuple[str, str], Origin] = {}
    for computation in module.computations.values():
        for one in computation.instructions.values():
            metadata = _metadata(module, computation, one)
            found[computation.name, one.name] = _origin(metadata, lines)
    return found


def _metadata(module: Module, computation: Computation, one: Instruction) -> str:
    """The text of an instruction's metadata, from itself or where else it is to be had."""
    while True:
        own = one.attributes.partition("metadata={")[2]
        if own:
            return own
        if one.opcode == "fusion":
            body = module.computations[one.called("calls")[0]]
            if not _only_moves(body):
                return _of_body(body)
        elif one.opcode not in _FOLLOW:
            return ""
        if not one.operands:
            return ""
        one = computation.instructions[one.operands[0]]


def _of_body(body: Computation) -> str:
    """The metadata of a body's root, else of the last instruction that has one."""
    ordered = [body.instructions[body.root], *reversed(list(body.instructions.values()))]
    found = (one.attributes.partition("metadata={")[2] for one in ordered)
    return next((metadata for metadata in found if metadata), "")


def _only_moves(body: Computation) -> bool:
    """Whether a body without metadata does nothing but move its operand."""
    return not _of_body(body) and _MOVES.issuperset(
        one.opcode for one in body.instructions.values()
    )


def _origin(metadata: str, lines: Mapping[int, SourceLine]) -> Origin:
    fields = (_OP_NAME, _FRAME, _FILE, _LINE)
    name, frame, file, line = (field.search(metadata) for field in fields)
    source = None
    if frame:
        source = lines.get(int(frame[1]))
    elif file and line:
        source = SourceLine(_unescaped(file[1]), int(line[1]))
    return Origin(_unescaped(name[1]) if name else "", source)


def _frame_lines(text: str) -> dict[int, SourceLine]:
    """The line that counts of the stack of every frame.

    XLA writes a frame's parent plus one; 1 is no parent. A frame that seems to be its own parent
    gives that away: parents have lower numbers.
    """
    files, functions, locations, stack = _tables(text)
    names = {number: _unescaped(name) for number, (name,) in files.items()}
    owners = {number: _unescaped(name) for number, (name,) in functions.items()}
    places = {
        number: SourceLine(names[int(file)], int(line), owners.get(int(owner), ""))
        for number, (file, owner, line) in locations.items()
        if int(file) in names
    }
    shift = int(any(number == int(parent) for number, (_, parent) in stack.items()))
    frames = {number: (int(at), int(parent) - shift) for number, (at, parent) in stack.items()}
    found = ((number, _innermost(number, frames, places)) for number in frames)
    return {number: line for number, line in found if line is not None}


def _innermost(
    number: int, frames: Mapping[int, tuple[int, int]], places: Mapping[int, SourceLine]
) -> SourceLine | None:
    lines = []
    while number in frames:
        location, parent = frames[number]
        if location in places:
            lines.append(places[location])
        if parent >= number:
            break
        number = parent
    own = (line for line in lines if not is_library(line.file))
    return next(own, lines[0] if lines else None)


def is_library(file: str) -> bool:
    """Whether a file is of an installed package, of Python itself, or of JAX."""
    return bool(_LIBRARY.search(file.replace("\\", "/")))


def _tables(text: str) -> list[dict[int, tuple[str, ...]]]:
    """Fields by number, of files, functions, locations and frames: what precedes computations."""
    tables: dict[str, dict[int, tuple[str, ...]]] = {title: {} for title in _ROWS}
    title = ""
    for match in re.finditer(r"^.*$", text, re.MULTILINE):
        line = match.group().strip()
        if line in tables:
            title = line
        elif title and (row := _ROWS[title].match(line)):
            tables[title][int(row[1])] = row.groups()[1:]
        elif line and not line.startswith("HloModule"):
            break
    return list(tables.values())


def _unescaped(text: str) -> str:
    """Without C's escapes, in which XLA writes quotes and, in octal, bytes beyond ASCII."""
    data = _ESCAPE.sub(_character, text.encode("utf-8", "replace"))
    return data.decode("utf-8", "replace")


def _character(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8) & 255]) if code.isdigit() else _CONTROL.get(code, code)


_FOLLOW = ALIASES | {"copy", "copy-start", "get-tuple-element"}
_MOVES = _FOLLOW | {"parameter", "broadcast", "convert", "reshape", "transpose"}
_STRING = r'"((?:[^"\\]|\\.)*)"'
_ROWS = {
    "FileNames": re.compile(rf"(\d+) {_STRING}"),
    "FunctionNames": re.compile(rf"(\d+) {_STRING}"),
    "FileLocations": re.compile(r"(\d+) \{file_name_id=(\d+) function_name_id=(\d+) line=(\d+)"),
    "StackFrames": re.compile(r"(\d+) \{file_location_id=(\d+) parent_frame_id=(\d+)"),
}
_OP_NAME = re.compile(rf"\bop_name={_STRING}")
_FRAME = re.compile(r"\bstack_frame_id=(\d+)")
_FILE = re.compile(rf"\bsource_file={_STRING}")
_LINE = re.compile(r"\bsource_line=(\d+)")
_LIBRARY = re.compile(r"(?:^|/)(?:(?:site|dist)-packages|lib(?:64)?/python\d[\d.]*|jax/_src)/")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_CONTROL = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}

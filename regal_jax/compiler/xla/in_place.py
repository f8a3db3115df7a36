"""Which instructions write into an operand's memory: those that must, and those that may.

After XLA's ``HloDataflowAnalysis``, GetInPlaceInputOutputPairs and CanShareOperandBufferWithUser.
"""

import re
from collections.abc import Iterator

from regal_jax.graphs.importers.xla.text import Array, Computation, Instruction, Module, leaves

_UPDATES = frozenset(("dynamic-update-slice", "scatter"))

_OVERWRITING = frozenset((("sort", 0), ("triangular-solve", 1)))
"""(opcode, operand) of others that may."""

_ELEMENTWISE = frozenset(
    """
    abs add and atan2 bitcast-convert cbrt ceil clamp compare complex convert copy cosine
    count-leading-zeros divide erf exponential exponential-minus-one floor imag is-finite log
    log-plus-one logistic map maximum minimum multiply negate not or popcnt power real
    reduce-precision remainder round-nearest-afz round-nearest-even rsqrt select shift-left
    shift-right-arithmetic shift-right-logical sign sine sqrt stochastic-convert subtract tan tanh
    xor
    """.split()  # noqa: SIM905
)


def required(module: Module, one: Instruction) -> Iterator[tuple[int, int]]:
    """(leaf of the result, operand) of every result that is an updated operand."""
    if one.opcode in _UPDATES:
        yield 0, 0
    elif one.opcode == "fusion":
        body = module.computations[one.called("calls")[0]]
        root = body.instructions[body.root]
        parts = root.operands if root.opcode == "tuple" else (root.name,)
        for index, name in enumerate(parts):
            updated = _updated_parameter(body, body.instructions[name])
            if updated is not None:
                yield index, updated
    yield from _declared(one)


def allowed(module: Module, computation: str, one: Instruction, operand: int) -> bool:
    """Whether a result of an operand's shape may be made in the operand's memory."""
    operands = module.computations[computation].instructions
    source = operands[one.operands[operand]]
    if not _has_shape(one, source):
        return False
    if one.opcode == "fusion":
        return _is_elementwise_in(module.computations[one.called("calls")[0]], operand)
    return one.opcode in _ELEMENTWISE or (one.opcode, operand) in _OVERWRITING


def _has_shape(one: Instruction, source: Instruction) -> bool:
    return isinstance(source.shape, Array) and source.shape in tuple(leaves(one.shape))


def _is_elementwise_in(body: Computation, number: int) -> bool:
    """Whether everything that a fusion makes of a parameter is made element by element."""
    reached = {
        one.name
        for one in body.instructions.values()
        if one.opcode == "parameter" and int(one.arguments) == number
    }
    for one in body.instructions.values():
        if one.opcode == "parameter" or reached.isdisjoint(one.operands):
            continue
        if one.opcode not in _ELEMENTWISE and one.opcode != "tuple":
            return False
        reached.add(one.name)
    return True


def _updated_parameter(body: Computation, one: Instruction) -> int | None:
    """The number of the parameter that an instruction of a fusion updates, or None."""
    if one.opcode not in _UPDATES:
        return None
    copies = ("bitcast", "copy", "convert", "get-tuple-element")
    source = body.source(one.operands[0], copies)
    return int(source.arguments) if source.opcode == "parameter" else None


def _declared(one: Instruction) -> Iterator[tuple[int, int]]:
    """``output_to_operand_aliasing={{0}: (1, {})}``; what starts asynchronously has operands and
    results, ``{1}`` or ``{1, 0}``."""
    text = one.attributes.partition("output_to_operand_aliasing=")[2]
    for match in re.finditer(r"\{([\d, ]*)\}: \((\d+), \{\}\)", text.partition("}}")[0] + "}"):
        path = [int(index) for index in match.group(1).split(",") if index]
        if one.opcode.endswith("-start"):
            del path[:1]
        yield path[0] if path else 0, int(match.group(2))

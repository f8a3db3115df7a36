"""How often a loop of a module runs.

XLA's CPU and GPU compilers say so of loops whose trips they know; the TPU's doesn't, but keeps the
condition of a scan as JAX writes it: a counter, to which the body adds a constant, below another.
"""

import re

from regal_jax.graphs.importers.xla.text import Computation, Instruction, Module

_COPIES = ("copy", "copy-start", "copy-done", "bitcast")
_KNOWN = re.compile(r"known_trip_count\W+n\W+(\d+)")


def trip_count(module: Module, computation: Computation, loop: Instruction) -> int | None:
    """How often a while runs: its known trip count, or by its condition; None if neither tells. A
    counter whose start isn't seen starts at 0, as those of scans do."""
    if known := _KNOWN.search(loop.attributes):
        return int(known.group(1))
    condition, body = (module.computations[loop.called(key)[0]] for key in ("condition", "body"))
    test = condition.instructions[condition.root]
    if test.opcode != "compare" or test.attribute("direction") != "LT":
        return None
    counter, bound = (condition.source(name, _COPIES) for name in test.operands)
    limit, index = _constant(bound), counter.attribute("index")
    step = _step(body, index) if index else None
    if index is None or limit is None or not step or step < 0:
        return None
    start = _constant(_element(computation, loop.operands[0], index)) or 0
    return max(-(-(limit - start) // step), 0)


def _step(body: Computation, index: str) -> int | None:
    """What a loop's body adds to an element of its state."""
    added = _element(body, body.root, index)
    if added.opcode != "add":
        return None
    one, other = (body.source(name, _COPIES) for name in added.operands)
    counter, step = (other, one) if one.opcode == "constant" else (one, other)
    return _constant(step) if counter.attribute("index") == index else None


def _element(computation: Computation, name: str, index: str) -> Instruction:
    """What an element of a tuple that is written out is a copy of; else what has it."""
    one = computation.instructions[name]
    name = one.operands[int(index)] if one.opcode == "tuple" else name
    return computation.source(name, _COPIES)


def _constant(one: Instruction) -> int | None:
    is_one = one.opcode == "constant" and re.fullmatch(r"-?\d+", one.arguments.strip())
    return int(one.arguments) if is_one else None

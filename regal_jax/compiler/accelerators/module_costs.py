"""What a compiled module will do: kernels, time, and what runs beside its collectives.

Times are estimates. TPUs: the compiler's own ``estimated_cycles`` of each instruction, and the
roofline of a fusion that it has none for. GPUs: what it takes to launch each, and its roofline. Of
a loop, a body's times the trip count, where it is known; what isn't known counts once.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from regal_jax.compiler.accelerators.roofline import (
    Kind,
    convolution,
    kernel_seconds,
    roofline_seconds,
)
from regal_jax.compiler.accelerators.specifications import Specification
from regal_jax.graphs.importers.xla.flops import (
    instruction_bytes,
    instruction_flops,
    trip_count,
)
from regal_jax.graphs.importers.xla.module import ALIASES, bodies
from regal_jax.graphs.importers.xla.text import Computation, Instruction, Module, leaves

COLLECTIVES = (
    *("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute"),
    *("ragged-all-to-all", "collective-broadcast"),
)

_NOTHING = frozenset(("parameter", "constant", "tuple", "get-tuple-element", "after-all")) | ALIASES
_GROUPS = re.compile(r"(?:feature|batch)_group_count=(\d+)")
_WINDOW = re.compile(r"window=\{size=([\dx]+)")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')


UNKNOWN_CYCLES = 2**63 - 1
"""What TPUs' compiler says of a fusion that it has no estimate for."""


@dataclass(frozen=True, kw_only=True)
class ModuleCosts:
    """What a module does on one device.

    Attributes:
      kernels: instructions that do work, of loops once.
      seconds: estimated.
      flops: floating-point operations.
      bytes_accessed: by all kernels.
      collectives: how many there are.
      overlapped: how many of them have other work between their start and their end.
    """

    kernels: int
    seconds: float
    flops: float
    bytes_accessed: float
    collectives: int
    overlapped: int


def module_costs(module: Module, specification: Specification) -> ModuleCosts:
    """The costs of a scheduled module on one device."""
    kernels, seconds, flops, accessed = 0, 0.0, 0.0, 0.0
    for times, computation, one in _steps(module, module.entry, 1.0):
        work = instruction_flops(module, computation, one)
        moved = instruction_bytes(module, computation, one)
        kernels += 1
        flops += times * work
        accessed += times * moved
        seconds += times * _seconds(one, work, moved, specification)
    computations = [module.computations[name] for name in _run(module, module.entry)]
    beside = [overlap for one in computations for overlap in _collectives(module, one)]
    return ModuleCosts(
        kernels=kernels,
        seconds=seconds,
        flops=flops,
        bytes_accessed=accessed,
        collectives=len(beside),
        overlapped=sum(beside),
    )


def _seconds(one: Instruction, flops: float, moved: float, of: Specification) -> float:
    types = {array.dtype for array in leaves(one.shape)}
    if of.clock_hz:
        found = _CYCLES.search(one.attributes)
        cycles = int(found.group(1)) if found else 0
        if cycles != UNKNOWN_CYCLES:
            return cycles / of.clock_hz
        return roofline_seconds(flops, moved, types, Kind.PRODUCT, of)
    return kernel_seconds(flops, moved, types, _kind(one), of)


def _kind(one: Instruction) -> Kind:
    if "$conv" not in one.attributes:
        return Kind.PRODUCT
    groups = max(map(int, _GROUPS.findall(one.attributes)), default=1)
    window = _WINDOW.search(one.attributes)
    return convolution(groups, math.prod(map(int, window.group(1).split("x"))) if window else 1)


def _steps(
    module: Module, name: str, times: float
) -> Iterator[tuple[float, Computation, Instruction]]:
    """(how often, its computation, instruction) of what does work, bodies written out."""
    computation = module.computations[name]
    for one in computation.instructions.values():
        inner = bodies(one)
        for body in inner:
            repeats = trip_count(one) if one.opcode == "while" else 1
            yield from _steps(module, body, times * repeats)
        if not inner and one.opcode not in _NOTHING:
            yield times, computation, one


def _run(module: Module, name: str) -> Iterator[str]:
    """A computation and the bodies that it runs."""
    yield name
    for one in module.computations[name].instructions.values():
        for body in bodies(one):
            yield from _run(module, body)


def _collectives(module: Module, computation: Computation) -> Iterator[bool]:
    """Whether work runs beside it, of every collective of a computation."""
    waiting: dict[str, bool] = {}  # by its start: whether something has run since
    for one in computation.instructions.values():
        if kind := _collective(module, one):
            if kind == "start":
                waiting[one.name] = False
            else:
                yield kind == "fused"
        elif one.opcode.endswith("-done") and one.operands[0] in waiting:
            yield waiting.pop(one.operands[0])
        elif one.opcode not in _NOTHING:
            waiting = dict.fromkeys(waiting, True)


def _collective(module: Module, one: Instruction) -> str:
    """ "start", "whole", "fused" with other work (TPUs), or nothing."""
    if one.opcode in COLLECTIVES:
        return "whole"
    if one.opcode.removesuffix("-start") in COLLECTIVES:
        return "start"
    if one.opcode in ("fusion", "async-start"):
        called = [module.computations[name] for name in one.called("calls")]
        inner = [each.opcode for body in called for each in body.instructions.values()]
        if any(opcode.removesuffix("-start") in COLLECTIVES for opcode in inner):
            return "start" if one.opcode == "async-start" else "fused"
    return ""

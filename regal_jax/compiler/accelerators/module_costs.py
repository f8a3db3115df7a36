"""What a compiled module will do: kernels, time, and what runs beside its collectives.

Times are estimates. TPUs: the compiler's own ``estimated_cycles`` of each instruction, and the
roofline of a fusion that it has none for. GPUs: what it takes to launch each, and its roofline. Of
a loop, a body's times the trip count, where it is known; what isn't known counts once. Collectives
take links' time, beside the work between their starts and ends.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from regal_jax.compiler.accelerators.collectives import (
    Part,
    Phase,
    link_seconds,
    part_of_collective,
)
from regal_jax.compiler.accelerators.roofline import (
    Kind,
    convolution,
    kernel_seconds,
    roofline_seconds,
)
from regal_jax.compiler.accelerators.specifications import Link, Specification
from regal_jax.graphs.importers.xla.flops import instruction_bytes, instruction_flops
from regal_jax.graphs.importers.xla.module import ALIASES, bodies
from regal_jax.graphs.importers.xla.text import Computation, Instruction, Module, leaves
from regal_jax.graphs.importers.xla.trips import trip_count

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


_ZERO = ModuleCosts(
    kernels=0, seconds=0.0, flops=0.0, bytes_accessed=0.0, collectives=0, overlapped=0
)


def module_costs(module: Module, specification: Specification) -> ModuleCosts:
    """The costs of a scheduled module on one device."""
    return _costs(module, module.entry, specification)


def _costs(module: Module, name: str, of: Specification) -> ModuleCosts:
    """Of a computation, with what it calls."""
    computation = module.computations[name]
    timeline, parts = _Timeline(of.link), []
    for one in computation.instructions.values():
        part = part_of_collective(module, computation, one)
        own = _own(module, computation, one, of)
        if part and one.opcode != "fusion":
            own = replace(own, seconds=0.0)  # links' time, which the timeline adds
        timeline.run(part, own)
        parts.append(own)
    timeline.finish()
    total = _added(parts)
    return replace(
        total,
        seconds=timeline.now,
        collectives=total.collectives + timeline.collectives,
        overlapped=total.overlapped + timeline.overlapped,
    )


class _Timeline:
    """Instructions run one behind another; beside them, one behind another, too, collectives from
    their starts on. Who comes to a collective's end waits for it."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.now = self.idle = 0.0  # seconds; when links have nothing to do any more
        self.begun: dict[str, tuple[float, int]] = {}  # when it ends; kernels before
        self.kernels = self.collectives = self.overlapped = 0

    def run(self, part: Part | None, own: ModuleCosts) -> None:
        """Adds an instruction: what it is of a collective, and its own work."""
        phase = part.phase if part else None
        if part and phase is not Phase.END:
            self.idle = max(self.now, self.idle) + link_seconds(part, self.link)
            self.collectives += 1
        self.now += own.seconds
        if part and phase is Phase.START:
            self.begun[part.key] = self.idle, self.kernels
        elif part and part.key in self.begun:
            end, before = self.begun.pop(part.key)
            self.now = max(self.now, end)
            self.overlapped += self.kernels > before
        elif phase in (Phase.WHOLE, Phase.FUSED):
            self.now = max(self.now, self.idle)
            self.overlapped += phase is Phase.FUSED
        else:
            self.kernels += own.kernels

    def finish(self) -> None:
        """Waits for what has begun."""
        self.now = max(self.now, self.idle)


def _own(
    module: Module, computation: Computation, one: Instruction, of: Specification
) -> ModuleCosts:
    """Of an instruction; of one that runs others, theirs."""
    if inner := bodies(one):
        times = trip_count(module, computation, one) if one.opcode == "while" else None
        return _added([_repeated(_costs(module, body, of), times or 1) for body in inner])
    if one.opcode in _NOTHING:
        return _ZERO
    work = instruction_flops(module, computation, one)
    moved = instruction_bytes(module, computation, one)
    return replace(
        _ZERO,
        kernels=1,
        seconds=_seconds(one, work, moved, of),
        flops=work,
        bytes_accessed=moved,
    )


def _repeated(costs: ModuleCosts, times: float) -> ModuleCosts:
    return replace(
        costs,
        seconds=times * costs.seconds,
        flops=times * costs.flops,
        bytes_accessed=times * costs.bytes_accessed,
    )


def _added(costs: Sequence[ModuleCosts]) -> ModuleCosts:
    names = [field.name for field in fields(ModuleCosts)]
    return ModuleCosts(**{name: sum(getattr(one, name) for one in costs) for name in names})


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

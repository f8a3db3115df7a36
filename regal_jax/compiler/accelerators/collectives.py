"""Collectives of a compiled module: where they begin and end, and how long links take for them.

A collective runs in a ring: what a device sends of what it has, and in how many steps, is, of n
devices,

| collective | sent, of the operands' bytes | steps |
|---|---|---|
| all-reduce | 2 (n - 1) / n | 2 (n - 1) |
| all-gather | n - 1 | n - 1 |
| reduce-scatter, all-to-all | (n - 1) / n | n - 1 |
| others: permutations, broadcasts | 1 | 1 |
"""

import enum
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from regal_jax.compiler.accelerators.specifications import Link
from regal_jax.graphs.importers.xla.text import Computation, Instruction, Module, leaves

REACHED = 0.8
"""The share of a link's peak bandwidth that collectives reach (NCCL's own tests: an all-reduce of
many bytes among the eight GPUs of a DGX H100)."""

_RINGS = {
    "all-reduce": (lambda n: 2 * (n - 1) / n, lambda n: 2 * (n - 1)),
    "all-gather": (lambda n: n - 1, lambda n: n - 1),
    "reduce-scatter": (lambda n: (n - 1) / n, lambda n: n - 1),
    "all-to-all": (lambda n: (n - 1) / n, lambda n: n - 1),
    "ragged-all-to-all": (lambda n: (n - 1) / n, lambda n: n - 1),
    "collective-permute": (lambda n: 1, lambda n: 1),
    "collective-broadcast": (lambda n: 1, lambda n: 1),
}

_LISTED = re.compile(r"replica_groups=\{\{([\d,]+)\}")
_COUNTED = re.compile(r"replica_groups=\[\d+,(\d+)\]")
_MESH = re.compile(r"replica_groups=mesh\[([^\]]*)\] ?\{([^}]*)\}")
_AXIS = re.compile(r"'([^']*)'=(\d+)")
_NAMED = re.compile(r"'([^']*)'(?::\(\d+\)(\d+))?")
_EVERY = re.compile(r"(?:num_partitions|replica_count)=(\d+)")


class Phase(enum.Enum):
    """What an instruction is of a collective: its start, its end, all of it, or all of it beside
    other work (a fusion of TPUs)."""

    START = enum.auto()
    END = enum.auto()
    WHOLE = enum.auto()
    FUSED = enum.auto()


class Part(NamedTuple):
    """An instruction of a collective.

    Attributes:
      phase: which part.
      key: the same of a start and its end.
      kind: the collective's opcode; of an end nothing.
      sent: bytes that it is given; devices: among how many.
    """

    phase: Phase
    key: str
    kind: str = ""
    sent: int = 0
    devices: int = 1


def part_of_collective(module: Module, computation: Computation, one: Instruction) -> Part | None:
    """What an instruction is of a collective; None of none, or in the midst of one."""
    if one.opcode.endswith("-done"):
        return Part(Phase.END, one.operands[0])
    if kind := _kind(one):
        phase = Phase.WHOLE if kind == one.opcode else Phase.START
        return _part(phase, one.name, module, computation, one)
    for body, inner in _inside(module, one):
        if one.opcode == "async-start":
            return _part(Phase.START, one.name, module, body, inner)
        # TPUs run one collective in several fusions, beside their work: of a chain, on a channel
        channel = f"channel {inner.attribute('channel_id')}"
        marks = {each.attribute("custom_call_target") for each in body.instructions.values()}
        if "AsyncCollectiveStart" in marks:
            return _part(Phase.START, channel, module, body, inner)
        if "AsyncCollectiveDone" in marks:
            return Part(Phase.END, channel)
        is_midst = 'chain_id="' in inner.attributes
        return None if is_midst else _part(Phase.FUSED, one.name, module, body, inner)
    return None


def link_seconds(part: Part, on: Link) -> float:
    """How long a collective keeps a device's links."""
    if part.devices == 1:
        return 0.0
    sent, steps = (of(part.devices) for of in _RINGS[part.kind])
    return on.latency + steps * on.step_latency + sent * part.sent / (REACHED * on.bytes_per_second)


def _part(
    phase: Phase, key: str, module: Module, computation: Computation, one: Instruction
) -> Part:
    arrays = [a for name in one.operands for a in leaves(computation.instructions[name].shape)]
    sent = sum(array._replace(space=0).num_bytes for array in arrays)  # on the chip, too
    return Part(phase, key, _kind(one), sent, _devices(module, one))


def _kind(one: Instruction) -> str:
    kind = one.opcode.removesuffix("-start")
    return kind if kind in _RINGS else ""


def _inside(module: Module, one: Instruction) -> Iterator[tuple[Computation, Instruction]]:
    """Collectives that a fusion runs, or what runs asynchronously."""
    if one.opcode in ("fusion", "async-start"):
        for body in (module.computations[name] for name in one.called("calls")):
            yield from ((body, inner) for inner in body.instructions.values() if _kind(inner))


def _devices(module: Module, one: Instruction) -> int:
    """How many devices share a collective, by its first group; all of the module's without one."""
    if found := _LISTED.search(one.attributes):
        return len(found.group(1).split(","))
    if found := _COUNTED.search(one.attributes):
        return int(found.group(1))
    if found := _MESH.search(one.attributes):
        sizes = dict(_AXIS.findall(found.group(1)))
        return math.prod(int(part or sizes[axis]) for axis, part in _NAMED.findall(found.group(2)))
    return math.prod(map(int, _EVERY.findall(module.header)))

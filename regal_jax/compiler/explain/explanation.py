"""Why a compiled program's memory peak is where it is, what bounds it, what would lower it."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from regal_jax.compiler.explain.budgets import Budgeted
from regal_jax.compiler.explain.remedies import Remedy, remedies
from regal_jax.compiler.explain.source_lines import SourceLine, origins
from regal_jax.compiler.xla.buffers import Kind, allocate
from regal_jax.compiler.xla.candidates import Search, candidates
from regal_jax.compiler.xla.live_memory import LiveMemory, live_memory
from regal_jax.compiler.xla.module_orders import ModuleOrder, order_of, reordered
from regal_jax.compiler.xla.packing import temporary_bytes
from regal_jax.compiler.xla.peak_bound import Bound, peak_bound
from regal_jax.graphs.importers.xla.text import Array, Module

KINDS: Mapping[str, tuple[Kind, ...]] = {
    "parameters and constants": ("parameter", "constant"),
    "outputs": ("output",),
    "temporaries": ("temporary",),
}
"""What the timeline tells apart."""

PRESENT = "present"
"""The name of the order that a module has."""


class Step(NamedTuple):
    """A run of an instruction; those of a body come where it is called, once for a loop.

    ``op_name`` and ``source`` as in ``source_lines.Origin``.
    """

    computation: str
    instruction: str
    opcode: str
    op_name: str
    source: SourceLine | None


class Live(NamedTuple):
    """A buffer in use at a step.

    Attributes:
      number: of the buffer, in ``LiveMemory.memories``.
      num_bytes, kind: its size, and what it is.
      shape: of the array that it holds, like ``f32[16,512]``.
      name: of the array: a parameter's path, or the instruction that made it.
      made: the step that made what it holds.
      since: the step from which on it is in use.
      next_reader: the next step that reads it, None if none does.
      last_reader: the last step that reads what it holds, None if none does.
      idle: steps from its last use to its next reader; 0 where it is made or read at this step;
        None if it isn't read again.
    """

    number: int
    num_bytes: int
    kind: Kind
    shape: str
    name: str
    made: int
    since: int
    next_reader: int | None
    last_reader: int | None
    idle: int | None


class Allocated(NamedTuple):
    """Bytes that XLA allocates for a program.

    Attributes:
      parameters, constants: those of the program.
      outputs: those that take no donated parameter's memory.
      estimate: temporaries, estimated (``packing``).
      measured: temporaries as XLA tells them (``temp_size_in_bytes``), None where unknown.
    """

    parameters: int
    constants: int
    outputs: int
    estimate: int
    measured: int | None = None

    @property
    def temporaries(self) -> int:
        """The measured ones, else the estimate."""
        return self.estimate if self.measured is None else self.measured

    @property
    def total(self) -> int:
        return self.parameters + self.constants + self.outputs + self.temporaries


class Order(NamedTuple):
    """An order of the program.

    Attributes:
      name: the method that found it; "present" is the order that the program has.
      temporaries: bytes that XLA would allocate for them, estimated.
      peak: bytes of its peak.
    """

    name: str
    temporaries: int
    peak: int


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What is known of a program's memory; the accounting is that of ``live_memory``.

    Attributes:
      module: its name in XLA.
      steps: what runs, in order.
      memory: what is in memory when.
      allocated: what XLA allocates.
      bound: no order of the instructions needs less.
      remedies: what would lower the peak, the one that saves most first.
      orders: the present one, then those that a search found, the best first; empty without one.
      budgets: what ``memory_budget`` would do; only of functions.
    """

    module: str
    steps: Sequence[Step]
    memory: LiveMemory
    allocated: Allocated
    bound: Bound
    remedies: Sequence[Remedy]
    orders: Sequence[Order] = ()
    budgets: Sequence[Budgeted] = ()

    @functools.cached_property
    def timeline(self) -> dict[str, np.ndarray]:
        """int64[S] by kind (``KINDS``): bytes in use at every step."""
        return {name: self.memory.live_bytes(*kinds) for name, kinds in KINDS.items()}

    @functools.cached_property
    def peak_step(self) -> int:
        """The step of the peak, the first of several."""
        return int(self.memory.live_bytes().argmax())

    @property
    def peak(self) -> int:
        """Bytes."""
        return int(sum(values[self.peak_step] for values in self.timeline.values()))

    @property
    def at_peak(self) -> list[Live]:
        """All buffers in use at the peak, the largest first; their sizes sum up to it."""
        return self.live(self.peak_step)

    @property
    def reducible(self) -> int:
        """Bytes by which another order could lower the peak at most."""
        return self.peak - self.bound.num_bytes

    @property
    def fragmentation(self) -> int:
        """Bytes that XLA allocates beyond what is in use at the peak.

        Gaps between temporaries, outputs that aren't written yet, donated parameters that aren't
        read any more. Negative if XLA shares memory in ways that its text doesn't tell.
        """
        return self.allocated.total - self.peak

    def live(self, step: int) -> list[Live]:
        """The buffers in use at a step, the largest first."""
        return [self._live(number, step) for number in self.memory.live_at(step)]

    def name_of(self, value: int) -> str:
        """The name of an array: a parameter's path, or the instruction that makes it."""
        step = self.steps[self.memory.values[value].step]
        return step.op_name if step.opcode == "parameter" and step.op_name else step.instruction

    def shape_of(self, value: int) -> str:
        """Its type and dimensions, as in XLA."""
        return shape_text(self.memory.values[value].array)

    def _live(self, number: int, step: int) -> Live:
        one, value = self.memory.memories[number], self.memory.held(number, step)
        gap, made = self.memory.idle(number, step), self.memory.values[value].step
        readers = self.memory.readers(number, step)
        next_reader = next((reader for reader in readers if reader > step), None)
        last_reader = readers[-1] if readers else None
        idle = 0 if gap is None else None if gap[1] is None else gap[1] - gap[0]
        return Live(
            *(number, one.num_bytes, one.kind, self.shape_of(value), self.name_of(value)),
            *(made, one.first, next_reader, last_reader, idle),
        )


def shape_text(array: Array) -> str:
    """``f32[16,512]``"""
    return f"{array.dtype}[{','.join(map(str, array.dims))}]"


def explain_module(
    module: Module, text: str, *, temp_bytes: int | None = None, search: Search | None = None
) -> Explanation:
    """Explains the memory of a scheduled module; nothing is compiled.

    Args:
      module: the module.
      text: what it was parsed from, for its lines of source.
      temp_bytes: the temporaries that XLA allocates, where known.
      search: how better orders are searched for; None searches none.

    Raises:
      CompilerError: a module without a schedule.
    """
    order_of(module)
    memory, origin = live_memory(module), origins(module, text)
    steps = [
        Step(*place, module.computations[place[0]].instructions[place[1]].opcode, *origin[place])
        for place in memory.steps
    ]
    return Explanation(
        module=module.name,
        steps=steps,
        memory=memory,
        allocated=_allocated(module, memory, temp_bytes),
        bound=peak_bound(module, memory),
        remedies=remedies(module, memory, origin),
        orders=_orders(module, search) if search else (),
    )


def _allocated(module: Module, memory: LiveMemory, measured: int | None) -> Allocated:
    def total(*kinds: Kind) -> int:
        return sum(
            one.num_bytes for one in memory.memories if one.kind in kinds and one.donor is None
        )

    estimate = temporary_bytes(allocate(module))
    return Allocated(total("parameter"), total("constant"), total("output"), estimate, measured)


def _orders(module: Module, search: Search) -> list[Order]:
    found = [_order(module, one.name, one.order) for one in candidates(module, search)]
    return [_order(module, PRESENT, {}), *sorted(found, key=lambda order: order.temporaries)]


def _order(module: Module, name: str, order: ModuleOrder) -> Order:
    other = reordered(module, order)
    peak = int(live_memory(other).live_bytes().max())
    return Order(name, temporary_bytes(allocate(other)), peak)

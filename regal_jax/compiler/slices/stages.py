"""How a program falls into stages along a class of axes.

What a stage slices needs slices of what was there before it, and of what it makes itself; what is
added up over the slices is there when the stage is done.
"""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from regal_jax.compiler.barriers.kernels import is_cheap
from regal_jax.compiler.slices.axes import Axes, Pair
from regal_jax.compiler.slices.dims import PART, Axis, Dim
from regal_jax.compiler.slices.parts import ADDING, adds_whole, keeps_parts, state_of
from regal_jax.graphs.importers.jax.flat_program import FlatOp, FlatProgram, Step

SUMMING = frozenset({"dot_general", "conv_general_dilated", "scan"})
"""What is added up of things that are there already is worth a loop, if it takes much work."""


class SlicedOp(NamedTuple):
    """An op along a dimension.

    Attributes:
      op: the op.
      dims: of its steps but the last; None for one that isn't sliced.
      own: of the last.
      reads: values from outside of it, and the axis that each is sliced along.
    """

    op: FlatOp
    dims: tuple[Dim | None, ...]
    own: Dim
    reads: frozenset[tuple[int, Axis]]

    @property
    def made(self) -> list[tuple[int, Axis]]:
        """What it writes, and the axis that each is sliced along, or PART."""
        return list(zip(self.op.writes, self.own.made, strict=True))

    @property
    def same(self) -> set[int]:
        """What every slice makes whole."""
        return {self.op.writes[place] for place in self.own.same}

    @property
    def steps(self) -> list[tuple[Step, Dim | None]]:
        """The equations with their dimensions."""
        return list(zip(self.op.steps, (*self.dims, self.own), strict=True))


class Stages(NamedTuple):
    """How a program falls into stages along a class of axes.

    Attributes:
      ready: the first stage that has each value whole.
      slices: the stage that makes slices of a value, and their axis; None if each has it whole,
        PART if each has a part of it.
      chosen: ops that run in slices, and their stage.
      free: cheap ops of what is there, which can be run wherever they are read.
    """

    ready: dict[int, int]
    slices: dict[int, tuple[int, Axis]]
    chosen: dict[int, tuple[int, SlicedOp]]
    free: dict[int, SlicedOp]

    def repeatable(self, stage: int) -> dict[int, SlicedOp]:
        """Ops of earlier stages that make nothing but slices."""
        return {
            number: one
            for number, (made, one) in self.chosen.items()
            if made < stage and PART not in one.own.made and None not in one.own.made
        }


def stages_of(program: FlatProgram, axes: Axes, root: Pair) -> Stages:
    """The stages along the class that has a root."""
    stages = Stages(defaultdict(int), {}, {}, {})
    for number, op in enumerate(program.ops):
        _place(number, op, _along(op, axes, root), stages)
    return stages


def _along(op: FlatOp, axes: Axes, root: Pair) -> SlicedOp | None:
    """An op along a class; None if its last step has no dimension in it, or one has several. What
    no argument decides is sliced as it is read."""
    last = axes.within(op.steps[-1], root)
    if len(last) != 1:
        return None
    before = (axes.within(step, root) or axes.of_constant(step) for step in op.steps[:-1])
    for dims in itertools.product(*([*some, None] for some in before)):
        reads = _reads(op, (*dims, *last))
        if reads is not None:
            return SlicedOp(op, dims, last[0], reads)
    return None


def _place(number: int, op: FlatOp, one: SlicedOp | None, stages: Stages) -> None:
    """Puts an op into its stage."""
    if of_parts := _of_parts(op, stages):
        stage = max(_stage_of(*pair, stages) for pair in of_parts.reads)
        if op.steps[-1].equation.primitive.name in ADDING:
            stages.chosen[number] = stage, of_parts
        else:
            stages.free[number] = of_parts
        stages.ready.update(dict.fromkeys(op.writes, stage + 1))
        stages.slices.update(dict.fromkeys(op.writes, (stage, PART)))
        return
    if one is None:
        whole = max((stages.ready[value] for value in op.reads), default=0)
        stages.ready.update(dict.fromkeys(op.writes, whole))
        return
    stage = max((_stage_of(value, axis, stages) for value, axis in one.reads), default=0)
    begun = any(stages.slices.get(value) == (stage, axis) for value, axis in one.reads)
    is_free, name = is_cheap(op), op.steps[-1].equation.primitive.name
    if not begun and (is_free or (one.own.combine and name not in SUMMING)):
        stages.ready.update(dict.fromkeys(op.writes, stage))
        if is_free:
            stages.free[number] = one
        return
    stages.chosen[number] = stage, one
    for value, axis in one.made:
        stages.ready[value] = stage + 1
        if axis is not None or value in one.same:
            stages.slices[value] = stage, axis


def _of_parts(op: FlatOp, stages: Stages) -> SlicedOp | None:
    """An op that adds parts of sums up, or a cheap one that moves a part: each slice can do so with
    its own."""
    parts = {value for value in op.reads if stages.slices.get(value, (0, None))[1] == PART}
    if len({stages.slices[value][0] for value in parts}) != 1:
        return None
    states: dict[int, Axis] = dict.fromkeys(parts, PART)
    for step in op.steps:
        read = [state_of(atom, states) for atom in step.inputs]
        if PART in read:
            if not keeps_parts(step.equation, read) or adds_whole(step.equation, read):
                return None
            states.update(dict.fromkeys(step.outputs, PART))
    last = op.steps[-1]
    stage = max(stages.slices[value][0] for value in parts)
    is_there = all(stages.ready[value] <= stage for value in op.reads if value not in parts)
    if states.get(last.outputs[0]) != PART or not is_there or not is_cheap(op):
        return None
    own = Dim((None,) * len(last.inputs), (None,) * len(last.outputs), "add")
    reads = frozenset((value, PART if value in parts else None) for value in op.reads)
    return SlicedOp(op, (None,) * (len(op.steps) - 1), own, reads)


def _stage_of(value: int, axis: Axis, stages: Stages) -> int:
    """The first stage that has a value, or slices of it along an axis."""
    made = stages.slices.get(value)
    return made[0] if made and made[1] == axis else stages.ready[value]


def _reads(op: FlatOp, dims: Sequence[Dim | None]) -> frozenset[tuple[int, Axis]] | None:
    """What an op reads, and along which axis; None where that isn't the same in all its steps."""
    local: dict[int, Axis] = {}
    found: set[tuple[int, Axis]] = set()
    for step, dim in zip(op.steps, dims, strict=True):
        of = dim.inputs if dim else (None,) * len(step.inputs)
        for atom, axis in zip(step.inputs, of, strict=True):
            if not isinstance(atom, int):
                if axis is not None:
                    return None
            elif atom in local:
                if local[atom] != axis:
                    return None
            else:
                found.add((atom, axis))
        outputs = dim.outputs if dim else (None,) * len(step.outputs)
        local.update(zip(step.outputs, outputs, strict=True))
    return frozenset(found)

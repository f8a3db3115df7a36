"""Which part of a program can run slice by slice, such as a batch in parts.

Dimensions of equations tie axes of values together: what is sliced along one is sliced along all.
Along such a class of axes the program falls into stages. What a stage slices needs slices of what
was there before it, and of what it makes itself; what is added up over the slices is there when the
stage is done. The stage that holds the most bytes which nothing else reads is worth a loop.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from regal_jax.compiler.barriers.kernels import bytes_of, is_cheap
from regal_jax.compiler.slices.dims import Axis, Dim, dims_of
from regal_jax.graphs.importers.jax.flat_program import FlatOp, FlatProgram
from regal_jax.graphs.importers.jax.program import flops_of

CLASSES = 8
"""Of axes that are looked at, those of the most bytes."""

WORTH = 0.2
"""Of the bytes that a program makes: what a region must hold inside."""

SUMMING = frozenset({"dot_general", "conv_general_dilated"})
"""What is added up of things that are there already is worth a loop, if it takes much work."""

Dims = tuple[Dim | None, ...]
"""Of each step of an op; None for one that isn't sliced."""


class Region(NamedTuple):
    """Ops that run slice by slice.

    Attributes:
      ops: with the dimensions of their steps, in program order.
      own: those of them that don't run outside, too; the others are cheap.
      given: values that these read, and don't make.
      stacked: values that are read outside, and the axis along which slices are put together.
      combined: values that are made of all slices, and how.
      after: ops that depend on these.
      divisor: of the sizes of all sliced axes.
      inside: bytes that it makes, and nothing outside reads.
      flops: of its ops.
    """

    ops: Mapping[int, Dims]
    own: frozenset[int]
    given: tuple[int, ...]
    stacked: Mapping[int, int]
    combined: Mapping[int, str]
    after: frozenset[int]
    divisor: int
    inside: int
    flops: float


def best_region(program: FlatProgram) -> Region | None:
    """The region of the most bytes inside; None where there is none that is worth it."""
    axes = _Axes(program)
    found = [region for one in axes.classes() for region in _regions(program, axes, one)]
    some = [region for region in found if region.divisor > 1]
    best = max(some, key=lambda region: region.inside, default=None)
    made = sum(bytes_of(program, value) for op in program.ops for value in op.writes)
    return best if best and best.inside >= WORTH * made else None


class _Axes:
    """The classes of a program's axes, (value, axis), and the dimensions of its steps."""

    def __init__(self, program: FlatProgram):
        self._program = program
        self._parent: dict[tuple[int, int], tuple[int, int]] = {}
        self._dims: dict[int, list[Dim]] = {}
        self.ops = [[(step, self._dims_of(step)) for step in op.steps] for op in program.ops]
        for op in self.ops:
            for step, dims in op:
                for dim in dims:
                    self._tie(_tied(step, dim))

    def root(self, axis: tuple[int, int]) -> tuple[int, int]:
        """Of the class of an axis."""
        while (parent := self._parent.get(axis, axis)) != axis:
            self._parent[axis] = axis = self._parent.get(parent, parent)
        return axis

    def classes(self) -> list[tuple[int, int]]:
        """Roots, of the most bytes first."""
        held: dict[tuple[int, int], int] = defaultdict(int)
        made = {value for op in self._program.ops for value in op.writes}
        for value, axis in list(self._parent):
            if value in made:
                held[self.root((value, axis))] += bytes_of(self._program, value)
        return sorted(held, key=lambda root: -held[root])[:CLASSES]

    def dims(self, op: int, root: tuple[int, int]) -> Dims | None:
        """The dimension of each step in a class; None if its last has none, or one has several."""
        found = []
        for step, dims in self.ops[op]:
            mine = [dim for dim in dims if self.root(_tied(step, dim)[0]) == root]
            if len(mine) > 1:
                return None
            found.append(mine[0] if mine else None)
        return tuple(found) if found[-1] is not None else None

    def _dims_of(self, step) -> list[Dim]:
        key = id(step.equation)
        if key not in self._dims:
            self._dims[key] = [dim for dim in dims_of(step.equation) if _tied(step, dim)]
        return self._dims[key]

    def _tie(self, axes: Sequence[tuple[int, int]]) -> None:
        first = self.root(axes[0])
        self._parent.setdefault(axes[0], axes[0])
        for axis in axes[1:]:
            self._parent[self.root(axis)] = first


def _tied(step, dim: Dim) -> list[tuple[int, int]]:
    """The axes of a step's values that a dimension has."""
    atoms = zip((*step.inputs, *step.outputs), (*dim.inputs, *dim.outputs), strict=True)
    return [(atom, axis) for atom, axis in atoms if isinstance(atom, int) and axis is not None]


class _Stages(NamedTuple):
    """How a program falls into stages along a class of axes.

    Attributes:
      ready: the first stage that has each value whole.
      slices: the stage that makes slices of a value, and their axis.
      chosen: the stage and dimensions of ops that run in slices.
      free: cheap ops of what is there, which can be run wherever they are read, with dimensions.
    """

    ready: dict[int, int]
    slices: dict[int, tuple[int, int]]
    chosen: dict[int, tuple[int, Dims]]
    free: dict[int, Dims]


def _regions(program: FlatProgram, axes: _Axes, root: tuple[int, int]) -> Iterator[Region]:
    stages = _Stages(defaultdict(int), {}, {}, {})
    for number, op in enumerate(program.ops):
        _place(number, op, axes.dims(number, root), stages)
    by_stage: dict[int, dict[int, Dims]] = defaultdict(dict)
    for number, (stage, dims) in stages.chosen.items():
        by_stage[stage][number] = dims
    maker = {value: number for number, op in enumerate(program.ops) for value in op.writes}
    for ops in by_stage.values():
        yield _region(program, ops, stages.free, maker)


def _place(number: int, op: FlatOp, dims: Dims | None, stages: _Stages) -> None:
    """Puts an op into its stage."""
    reads, last = (None, None) if dims is None else (_reads(op, dims), dims[-1])
    if reads is None or dims is None or last is None:
        whole = max((stages.ready[value] for value in op.reads), default=0)
        stages.ready.update(dict.fromkeys(op.writes, whole))
        return
    stage = max((_stage_of(value, axis, stages) for value, axis in reads), default=0)
    begun = any(
        stages.slices.get(value) == (stage, axis) and axis is not None for value, axis in reads
    )
    if not begun:
        is_free = is_cheap(op)
        if is_free or (last.combine and op.steps[-1].equation.primitive.name not in SUMMING):
            if is_free:
                stages.free[number] = dims
            stages.ready.update(dict.fromkeys(op.writes, stage))
            return
    stages.chosen[number] = stage, dims
    for value, axis in zip(op.writes, last.outputs, strict=True):
        stages.ready[value] = stage + 1
        if axis is not None:
            stages.slices[value] = stage, axis


def _stage_of(value: int, axis: Axis, stages: _Stages) -> int:
    """The first stage that has a value, or slices of it along an axis."""
    stage, own = stages.slices.get(value, (0, None))
    return stage if axis is not None and own == axis else stages.ready[value]


def _reads(op: FlatOp, dims: Dims) -> set[tuple[int, Axis]] | None:
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
    return found


def _region(
    program: FlatProgram,
    ops: Mapping[int, Dims],
    free: Mapping[int, Dims],
    maker: Mapping[int, int],
) -> Region:
    pulled = dict[int, Dims]()
    waiting = list(ops.items())
    while waiting:
        number, dims = waiting.pop()
        for value, axis in _reads(program.ops[number], dims) or ():
            source = maker.get(value)
            if source is None or axis is None or source not in free or source in pulled:
                continue
            if (value, axis) in _made(program.ops[source], free[source]):
                pulled[source] = free[source]
                waiting.append((source, free[source]))
    own = {value for number in ops for value in program.ops[number].writes}
    after = _after(program, own, ops)
    outside = set(program.bases())
    for number, op in enumerate(program.ops):
        if number not in ops:
            outside.update(op.reads)
    stacked, combined, inside = {}, {}, 0
    for number, dims in ops.items():
        for value, axis in _made(program.ops[number], dims):
            if axis is None:
                combined[value] = dims[-1].combine if dims[-1] else ""
            elif value in outside:
                stacked[value] = axis
            else:
                inside += bytes_of(program, value)
    every = dict(sorted((pulled | dict(ops)).items()))
    return Region(
        every,
        frozenset(ops),
        tuple(sorted(_given(program, every))),
        stacked,
        combined,
        after,
        math.gcd(*_sizes(program, every)),
        inside,
        sum(flops_of(program.ops[number].steps[-1].equation) for number in ops),
    )


def _given(program: FlatProgram, ops: Mapping[int, Dims]) -> set[int]:
    """What ops read whole, or in slices that none of them makes."""
    made = {pair for op, dims in ops.items() for pair in _made(program.ops[op], dims)}
    read = {pair for op, dims in ops.items() for pair in _reads(program.ops[op], dims) or ()}
    return {value for value, axis in read if axis is None or (value, axis) not in made}


def _made(op: FlatOp, dims: Dims) -> Iterator[tuple[int, Axis]]:
    """The values that an op makes, and the axes that they are sliced along."""
    last = dims[-1]
    assert last is not None
    return zip(op.writes, last.outputs, strict=True)


def _after(program: FlatProgram, made: set[int], ops: Mapping[int, Dims]) -> frozenset[int]:
    """Ops that depend on values, but for those that make them."""
    found, known = set(), set(made)
    for number, op in enumerate(program.ops):
        if number not in ops and not known.isdisjoint(op.reads):
            found.add(number)
            known.update(op.writes)
    return frozenset(found)


def _sizes(program: FlatProgram, ops: Mapping[int, Dims]) -> Iterator[int]:
    for number, dims in ops.items():
        for step, dim in zip(program.ops[number].steps, dims, strict=True):
            for value, axis in _tied(step, dim) if dim else ():
                yield program.avals[value].shape[axis]

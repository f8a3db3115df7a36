"""Which part of a program can run slice by slice, such as a batch in parts.

Dimensions of equations tie axes of values together: what is sliced along one is sliced along all.
Along such a class of axes the program falls into stages. The stage that holds the most bytes which
nothing else reads is worth a loop.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jax.extend.core import JaxprEqn

from regal_jax.compiler.barriers.kernels import bytes_of
from regal_jax.compiler.slices.axes import Axes, Pair, tied
from regal_jax.compiler.slices.dims import PART, Axis, Dim, is_opaque
from regal_jax.compiler.slices.loops import dims_of, unseen_flops
from regal_jax.compiler.slices.stages import SlicedOp, Stages, stages_of
from regal_jax.graphs.importers.jax.flat_program import FlatProgram, Step
from regal_jax.graphs.importers.jax.loop_bodies import Loop, loops_of

CLASSES = 8
"""Of axes that are looked at, those of the most bytes."""

WORTH = 0.15
"""Of the bytes that a program makes: what a region must hold inside."""

SCOPE = "in_slices"
"""In the names of loops over slices."""

RESULT = -1
"""In place of an op's number: what the program returns is made of a value."""

LAST = "last"
"""How what every slice makes whole is made of all."""


class Region(NamedTuple):
    """Ops that run slice by slice.

    Attributes:
      ops: by number, in program order.
      own: those of them that don't run outside, too; the others are cheap, or of earlier stages.
      given: values that these read, and don't make.
      cut: which of them are read in slices, and the axis.
      stacked: values that are read outside, and the axis along which slices are put together.
      combined: values that are made of all slices, and how.
      after: ops that depend on these.
      divisor: of the sizes of all sliced axes.
      inside: bytes that it makes, and nothing outside reads.
    """

    ops: Mapping[int, SlicedOp]
    own: frozenset[int]
    given: tuple[int, ...]
    cut: tuple[Pair, ...]
    stacked: Mapping[int, int]
    combined: Mapping[int, str]
    after: frozenset[int]
    divisor: int
    inside: int

    def unseen_flops(self, turns: int) -> float:
        """FLOPs that XLA doesn't count if it is a loop of so many turns."""
        return sum(
            unseen_flops(step.equation, dim, turns)
            for one in self.ops.values()
            for step, dim in one.steps
        )


class Place(NamedTuple):
    """Where a region is.

    Attributes:
      region: of the innermost program.
      loops: that it is in the body of, from outside in.
    """

    region: Region
    loops: tuple[Loop, ...] = ()


def places_of(program: FlatProgram) -> Iterator[Place]:
    """The regions of a program, and of the bodies of its loops, that are worth it."""
    made = sum(bytes_of(program, value) for op in program.ops for value in op.writes)
    yield from (Place(one) for one in regions_of(program) if one.inside >= WORTH * made)
    for loop in loops_of(program):
        for inner in places_of(loop.body):
            yield Place(inner.region, (loop, *inner.loops))


def regions_of(program: FlatProgram, *, again: bool = False) -> Iterator[Region]:
    """Every region of a program.

    Args:
      program: its ops.
      again: whether to give those, too, whose slices make again what earlier stages made, rather
        than that it is kept: a network may be sliced so where its loss compares the whole batch.
    """
    steps = [step for op in program.ops for step in op.steps]
    axes = Axes(steps, _dims_of, constants=_constants(program, steps))
    readers = program.readers()
    for value in program.bases():
        readers.setdefault(value, set()).add(RESULT)
    for root in _classes(program, axes):
        for region in _regions(program, stages_of(program, axes, root), readers, again):
            combined = [program.avals[value] for value in region.combined]
            if region.divisor > 1 and not any(map(is_opaque, combined)):
                yield region


def _constants(program: FlatProgram, steps: Sequence[Step]) -> set[int]:
    """Values that no argument decides."""
    found = set(program.constants)
    for step in steps:
        if found.issuperset(atom for atom in step.inputs if isinstance(atom, int)):
            found.update(step.outputs)
    return found


def _dims_of(equation: JaxprEqn) -> list[Dim]:
    """Without those of loops over slices, and without sums at places that hold more than what is
    added: a part of one for each slice costs more than keeping that."""
    if SCOPE in str(equation.source_info.name_stack):
        return []
    found = dims_of(equation)
    if equation.primitive.name != "scatter-add":
        return found
    avals: list[Any] = [atom.aval for atom in equation.invars]
    is_small = avals[0].size <= avals[2].size
    return [dim for dim in found if is_small or not dim.combine]


def _classes(program: FlatProgram, axes: Axes) -> list[Pair]:
    """Roots, of the most bytes first."""
    held: dict[Pair, int] = defaultdict(int)
    made = {value for op in program.ops for value in op.writes}
    for value, axis in axes.known:
        if value in made:
            held[axes.root((value, axis))] += bytes_of(program, value)
    return sorted(held, key=lambda root: -held[root])[:CLASSES]


def _regions(
    program: FlatProgram, stages: Stages, readers: Mapping[int, set[int]], again: bool
) -> Iterator[Region]:
    by_stage: dict[int, dict[int, SlicedOp]] = defaultdict(dict)
    for number, (stage, one) in stages.chosen.items():
        by_stage[stage][number] = one
    for stage, ops in by_stage.items():
        kept = _with_free(ops, stages.free)
        yield _region(program, ops, kept, readers)
        made = _with_free(ops, stages.free | stages.repeatable(stage)) if again else kept
        if len(made) > len(kept):
            yield _region(program, ops, made, readers)


def _with_free(ops: Mapping[int, SlicedOp], free: Mapping[int, SlicedOp]) -> dict[int, SlicedOp]:
    """Ops, and the free ones that make slices that these read, in program order."""
    makers = {pair: number for number, one in free.items() for pair in one.made}
    found, waiting = dict(ops), list(ops.values())
    while waiting:
        for pair in waiting.pop().reads:
            number = makers.get(pair)
            if number is not None and number not in found:
                found[number] = free[number]
                waiting.append(free[number])
    return dict(sorted(found.items()))


def _region(
    program: FlatProgram,
    own: Mapping[int, SlicedOp],
    ops: Mapping[int, SlicedOp],
    readers: Mapping[int, set[int]],
) -> Region:
    given = _given(ops)
    whole = {value for value, _ in given}
    alone = _alone(own, ops, readers, whole)
    stacked, combined, inside = {}, {}, 0
    for one in own.values():
        for value, axis in one.made:
            is_read_outside = not readers.get(value, set()) <= alone
            if axis is None or axis == PART:
                if is_read_outside:
                    combined[value] = LAST if value in one.same else one.own.combine
            elif is_read_outside:
                stacked[value] = axis
            else:
                inside += bytes_of(program, value)
    return Region(
        ops,
        alone,
        tuple(sorted(whole)),
        tuple(sorted((value, axis) for value, axis in given if isinstance(axis, int))),
        stacked,
        combined,
        _after(program, alone),
        math.gcd(*_sizes(program, [step for one in ops.values() for step in one.steps])),
        inside,
    )


def _alone(
    own: Mapping[int, SlicedOp],
    ops: Mapping[int, SlicedOp],
    readers: Mapping[int, set[int]],
    whole: set[int],
) -> frozenset[int]:
    """A region's own ops, and those of the others whose slices are all that is read, and by none
    but these. ``whole`` are values that the region reads as they are outside."""
    found = set(own)
    for number in sorted(ops.keys() - own.keys(), reverse=True):
        writes = ops[number].op.writes
        if whole.isdisjoint(writes) and all(readers.get(value, set()) <= found for value in writes):
            found.add(number)
    return frozenset(found)


def _given(ops: Mapping[int, SlicedOp]) -> set[tuple[int, Axis]]:
    """What ops read whole, or in slices that none of them makes."""
    made = {pair for one in ops.values() for pair in one.made}
    read = {pair for one in ops.values() for pair in one.reads}
    return read - made


def _after(program: FlatProgram, own: frozenset[int]) -> frozenset[int]:
    """The other ops that depend on these."""
    found, known = set(), {value for number in own for value in program.ops[number].writes}
    for number, op in enumerate(program.ops):
        if number not in own and not known.isdisjoint(op.reads):
            found.add(number)
            known.update(op.writes)
    return frozenset(found)


def _sizes(program: FlatProgram, steps: Iterable[tuple[Step, Dim | None]]) -> Iterator[int]:
    """Of the axes that are sliced, those in bodies of loops, too."""
    for step, dim in steps:
        for value, axis in tied(step, dim) if dim else ():
            yield program.avals[value].shape[axis]
        if dim and dim.body:
            yield from _sizes(dim.body.program, dim.body.steps)

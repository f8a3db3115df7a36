"""Along which dimensions scans can be run slice by slice.

Every turn of a scan has to slice the same way: what a turn carries along an axis the next one reads
along it. What its body adds up over the slices may be stacked, or added to a carry.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jax.extend.core import JaxprEqn

from regal_jax.compiler.slices import dims as primitives
from regal_jax.compiler.slices.axes import Axes, Pair
from regal_jax.compiler.slices.dims import OF_MATRICES, PART, Axis, Dim
from regal_jax.compiler.slices.parts import adds_whole, keeps_parts, state_of
from regal_jax.compiler.slices.turn import Body
from regal_jax.graphs.importers.jax.flat_program import FlatProgram, Step, flat_jaxpr
from regal_jax.graphs.importers.jax.program import flops_of
from regal_jax.graphs.importers.jax.scans import Scan, scan_of

RANDOM = 50
"""Operations for 32 random bits by Threefry, as XLA counts them."""

_BY_LIBRARY = OF_MATRICES | {"triangular_solve"}


def dims_of(equation: JaxprEqn) -> list[Dim]:
    """All dimensions of an equation that are known to be slices of their own."""
    scan = scan_of(equation)
    if scan is None:
        return primitives.dims_of(equation)
    return [] if equation.effects else list(_scan_dims(scan))


def unseen_flops(equation: JaxprEqn, dim: Dim | None, turns: int) -> float:
    """FLOPs that XLA doesn't count of an equation if its slices are a loop, of which it counts one
    turn: those of the other slices, and again what each of them runs whole."""
    if dim is None or {None} == {*dim.inputs, *dim.outputs}:
        return (turns - 1) * _seen_flops(equation)
    if dim.body is None:
        return (1 - 1 / turns) * _seen_flops(equation)
    if dim.body.of_turns:
        return 0.0
    return sum(unseen_flops(step.equation, own, turns) for step, own in dim.body.steps)


def _seen_flops(equation: JaxprEqn) -> float:
    """As XLA counts them: of a loop's turns one, all of what makes random numbers, other ones of
    Fourier transforms, and none of what CPUs have a library for."""
    scan, name = scan_of(equation), equation.primitive.name
    if scan is not None:
        return sum(_seen_flops(op.steps[-1].equation) for op in flat_jaxpr(scan.body).ops)
    if name == "fft":
        lengths = equation.params["fft_lengths"]
        read: Any = equation.invars[0].aval
        return 8 * math.prod(int(math.log2(length)) for length in lengths) * read.size
    if name in _BY_LIBRARY:
        return 0.0
    return (RANDOM if name == "random_bits" else 1) * flops_of(equation)


def _scan_dims(scan: Scan) -> Iterator[Dim]:
    program = flat_jaxpr(scan.body)
    steps = _steps(program)
    yield from _of_turns(scan, program, steps)
    axes = Axes(steps, dims_of, _carried(scan, program))
    given = range(program.num_arguments)
    roots = {axes.root(pair): None for pair in axes.known if pair[0] in given}
    for root in roots:
        dim = _dim(scan, program, steps, axes, root)
        if dim is not None:
            yield dim


def _of_turns(scan: Scan, program: FlatProgram, steps: Sequence[Step]) -> Iterator[Dim]:
    """Along the turns, if these carry nothing but sums (``jax.lax.map``, and its gradients)."""
    whole, sums = scan.consts + scan.carry, range(scan.carry)
    stacks = program.num_arguments - whole, len(program.results) - scan.carry
    if stacks[0] and all(_is_sum(program, steps, scan.consts, place) for place in sums):
        nothing = (None,) * program.num_arguments, (None,) * len(program.results)
        each = tuple((step, None) for step in steps)
        yield Dim(
            (None,) * whole + (0,) * stacks[0],
            (None,) * scan.carry + (0,) * stacks[1],
            "add" if sums else "",
            body=Body(scan, program, each, *nothing, of_turns=True),
            once=_carries(scan, sums),
        )


def _carries(scan: Scan, places: Iterable[int]) -> frozenset[int]:
    """Carries, by their numbers among the scan's inputs."""
    return frozenset(scan.consts + place for place in places)


def _is_sum(program: FlatProgram, steps: Sequence[Step], consts: int, place: int) -> bool:
    """Whether turns do nothing with what they carry but to add to it."""
    found = {consts + place}
    for step in steps:
        reads = sum(atom in found for atom in step.inputs if isinstance(atom, int))
        if reads > 1 or (reads and not _adds(step.equation)):
            return False
        if reads:
            found.update(step.outputs)
    ends = [
        at for at, atom in enumerate(program.results) if isinstance(atom, int) and atom in found
    ]
    return ends == [place]


def _adds(equation: JaxprEqn) -> bool:
    """Whether an equation adds two values, or makes one strongly typed of a weakly typed one."""
    avals: list[Any] = [equation.invars[0].aval, equation.outvars[0].aval]
    is_same = equation.primitive.name == "convert_element_type" and avals[0].dtype == avals[1].dtype
    return is_same or equation.primitive.name in ("add", "add_any")


def _steps(program: FlatProgram) -> list[Step]:
    """Each once, in an order they can run in."""
    every = [*(step for op in program.ops for step in op.steps), *program.finish]
    return list({step.outputs: step for step in every}.values())


def _carried(scan: Scan, program: FlatProgram) -> Iterator[list[Pair]]:
    """What a turn carries is what the next one reads."""
    for place in range(scan.carry):
        value, result = scan.consts + place, program.results[place]
        if isinstance(result, int):
            for axis in range(len(program.avals[value].shape)):
                yield [(value, axis), (result, axis)]


def _dim(
    scan: Scan, program: FlatProgram, steps: Sequence[Step], axes: Axes, root: Pair
) -> Dim | None:
    """How all turns are sliced along a class of axes; None if they can't be.

    What is added to a carry makes a part of it; then the carry that the turn begins with is, too.
    """
    every = [_axes_in(program, axes, root, value) for value in range(program.num_arguments)]
    if any(len(own) > 1 for own in every):
        return None
    along = tuple(own[0] if own else None for own in every)
    carried = along[scan.consts : scan.consts + scan.carry]
    sums: frozenset[int] = frozenset()
    while True:
        given = dict(enumerate(along)) | {scan.consts + place: PART for place in sums}
        found = _run(steps, axes, root, given)
        if found is None:
            return None
        results = [state_of(atom, found.states) for atom in program.results]
        added = frozenset(place for place in range(scan.carry) if results[place] == PART)
        if not sums <= added or any(carried[place] is not None for place in added):
            return None
        if sums == added:
            break
        sums = added
    if not found.is_exact:
        return None
    made = (*carried, *(None if state == PART else state for state in results[scan.carry :]))
    whole = {place for place, axis in enumerate(made) if axis is None}
    same = frozenset(place for place in whole if results[place] != PART)
    return Dim(
        _stacked(along, scan.consts + scan.carry),
        _stacked(made, scan.carry),
        "add" if whole - same else "",
        same,
        Body(scan, program, found.steps, along, made),
        _carries(scan, sums),
    )


def _stacked(axes: Sequence[Axis], first: int) -> tuple[Axis, ...]:
    """Stacks have an axis more than what a body reads and makes of them."""
    return tuple(
        axis if axis is None or number < first else axis + 1 for number, axis in enumerate(axes)
    )


def _axes_in(program: FlatProgram, axes: Axes, root: Pair, value: int) -> list[int]:
    """The axes of a value that belong to a class."""
    rank = len(program.avals[value].shape)
    return [axis for axis in range(rank) if axes.root((value, axis)) == root]


class _Run(NamedTuple):
    """A body along a class of axes.

    Attributes:
      steps: with their dimensions; None for those that run whole.
      states: of values: the axis along which each is sliced, None if it is whole, or PART.
      is_exact: whether parts of sums are added to nothing but such parts.
    """

    steps: tuple[tuple[Step, Dim | None], ...]
    states: Mapping[int, Axis]
    is_exact: bool


def _run(steps: Sequence[Step], axes: Axes, root: Pair, given: Mapping[int, Axis]) -> _Run | None:
    """None where a step can't be run of what is sliced."""
    chosen: list[tuple[Step, Dim | None]] = []
    states, is_exact = dict(given), True
    for step in steps:
        read = [state_of(atom, states) for atom in step.inputs]
        dims = axes.within(step, root)
        if PART in read:
            if not keeps_parts(step.equation, read):
                return None
            is_exact &= not adds_whole(step.equation, read)
            states.update(dict.fromkeys(step.outputs, PART))
            chosen.append((step, None))
            continue
        if len(dims) > 1 or not _fits(dims[0] if dims else None, read):
            return None
        is_whole = not dims or (dims[0].combine and set(read) == {None})
        dim = None if is_whole else dims[0]
        if dim is not None:
            if dim.combine not in ("", "add"):
                return None
            states.update(zip(step.outputs, dim.made, strict=True))
        chosen.append((step, dim))
    return _Run(tuple(chosen), states, is_exact)


def _fits(dim: Dim | None, read: Sequence[Axis]) -> bool:
    """Whether what is sliced is read along that axis; what is whole can be cut."""
    inputs = dim.inputs if dim else (None,) * len(read)
    return all(state is None or state == axis for state, axis in zip(read, inputs, strict=True))

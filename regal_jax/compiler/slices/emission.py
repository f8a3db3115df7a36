"""A program with a region of it, or of a loop's body, run slice by slice: the same numbers, but for
rounding of sums.

Of a batch in parts gradients are added up part by part, and what is kept from the forward to the
backward pass is of one part. No work is done again; what is left is smaller, and takes longer where
a slice is too small for the device.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from regal_jax.compiler.barriers.emission import program_of, with_program
from regal_jax.compiler.slices.cut import Cut
from regal_jax.compiler.slices.groups import slice_of, slice_of_each_group
from regal_jax.compiler.slices.peaks import lightest, peak_of, weight_of
from regal_jax.compiler.slices.regions import LAST, SCOPE, Place, Region, places_of
from regal_jax.graphs.importers.jax.flat_program import FlatOp, FlatProgram
from regal_jax.graphs.importers.jax.loop_bodies import with_body

TURNS = (2, 4, 8, 16)
"""Slices, or the next lower number that divides all sizes."""

OF_SEVERAL = 8
"""Slices where there are several regions."""

MOST_REGIONS = 16
LESS = 0.03
"""Of the weight of a program: what each of several regions takes off it, at least."""

MUCH_LESS = 0.8
"""Of the most bytes that a program with one region holds: what one with several may."""

ENOUGH = 0.5
"""Of the most bytes that a program holds: where one region leaves less, several aren't looked for.
"""

MOST_UNROLLED = 10_000
"""Ops of a region, over all its slices, if these are no loop."""


class InSlices(NamedTuple):
    """A traced function with a region in so many slices.

    Attributes:
      traced: as ``jax.jit(fn).trace(...)``.
      turns: slices.
      unrolled: whether the slices are one after another, by barriers, rather than a loop.
      unseen: FLOPs that XLA doesn't count, if they are a loop.
      apart: whether each device adds up parts of sums of its own, and all of them once at the end.
      staged: whether there are several regions, which make again what others make.
    """

    traced: Any
    turns: int
    unrolled: bool
    unseen: float
    apart: bool = False
    staged: bool = False


class _Form(NamedTuple):
    """How slices run: the first one's place, and the rest as in ``InSlices``."""

    first: Cut
    unrolled: bool
    apart: bool = False

    def unseen_flops(self, region: Region) -> float:
        """FLOPs that XLA doesn't count."""
        return 0.0 if self.unrolled else region.unseen_flops(self.first.turns)


class _Machine(NamedTuple):
    """What slices run on: CPUs or accelerators, and how many have a part of each."""

    is_cpu: bool
    devices: int

    def unrolls(self, region: Region) -> bool:
        return self.is_cpu and any(_is_convolution(one.op) for one in region.ops.values())

    def turns(self, region: Region, most: int) -> int:
        """The most slices, but no more; 0 where there can't be two."""
        if self.unrolls(region):
            most = min(most, MOST_UNROLLED // len(region.ops))
        each, rest = divmod(region.divisor, self.devices)
        divisors = [n for n in range(2, min(each, most) + 1) if each % n == 0 and not rest]
        return max(divisors, default=0)

    def spared(self, region: Region, most: int) -> float:
        """Bytes that it makes, and these slices don't hold."""
        return region.inside * (1 - 1 / max(self.turns(region, most), 1))

    def loops(self, region: Region) -> bool:
        """Whether a region may be a loop of several slices, not one after another."""
        return not self.unrolls(region) and self.turns(region, OF_SEVERAL) > 1

    def form(self, region: Region, turns: int) -> _Form:
        among = region.divisor // turns if self.devices > 1 else 1
        return _Form(Cut(turns, 0, among), self.unrolls(region))


def in_slices(
    traced: Any, program: FlatProgram, *, for_cpus: bool, devices: int = 1
) -> list[InSlices]:
    """The traced function with its best region in ever more slices, each time that which they
    spare most of, and then with several regions; none if none is worth it.

    On several devices each number of slices is there twice: devices that add up parts of sums of
    their own, and send them once, hold as much of each sum as all of it is.

    None either if types say how values lie on devices ("explicit" axes of a mesh): slices' don't.
    XLA:CPU runs convolutions in loops slowly, those of gradients tens of times, so there they are
    unrolled.

    Args:
      traced: ``jax.jit(fn).trace(...)``.
      program: its ops.
      for_cpus: whether it is compiled for these.
      devices: that may have a part each of what is sliced; then they have one of each slice.
    """
    if any(map(_says_where, traced.jaxpr.in_avals)):
        return []
    machine, places = _Machine(for_cpus, devices), list(places_of(program))
    found = list(_in_ever_more(traced, program, places, machine))
    place = max(places, key=lambda place: place.region.inside, default=None)
    held = peak_of(program, place.region if place and not place.loops else None)
    if held > ENOUGH * peak_of(program):
        staged, least = _in_regions(traced, program, machine)
        found += [staged] if staged.turns and least < MUCH_LESS * held else []
    return found


def _in_ever_more(
    traced: Any, program: FlatProgram, places: Sequence[Place], machine: _Machine
) -> Iterator[InSlices]:
    """The function with one region in ever more slices, which spare ever more."""
    spared = 0.0
    for most in TURNS:
        place = max(places, key=lambda one: machine.spared(one.region, most), default=None)
        if place and (now := machine.spared(place.region, most)) > spared:
            spared = now
            yield from _at_place(traced, program, place, machine, most)


def _at_place(
    traced: Any, program: FlatProgram, place: Place, machine: _Machine, most: int
) -> Iterator[InSlices]:
    """The function with one region in so many slices, or the next lower number."""
    region, turns = place.region, machine.turns(place.region, most)
    forms = [machine.form(region, turns)]
    if machine.devices > 1 and "add" in region.combined.values():
        forms.append(_Form(Cut(turns, 0, machine.devices), forms[0].unrolled, apart=True))
    for form in forms:
        with contextlib.suppress(NotImplementedError):  # apart: an op without a rule for vmap
            made = with_program(traced, _program_in(program, place, form))
            yield InSlices(made, turns, form.unrolled, form.unseen_flops(region), form.apart)


def _in_regions(traced: Any, program: FlatProgram, machine: _Machine) -> tuple[InSlices, int]:
    """The function with one region after another in slices, each of which may make again what
    others make, and the most bytes that it holds."""
    less, made = LESS * weight_of(program), InSlices(traced, 0, False, 0.0, staged=True)
    for _ in range(MOST_REGIONS):
        found = lightest(program, machine.loops)
        if found is None or found[0] > weight_of(program) - less:
            break
        region = found[1]
        form = machine.form(region, machine.turns(region, OF_SEVERAL))
        made = made._replace(
            traced=with_program(made.traced, _program_in(program, Place(region), form)),
            turns=max(made.turns, form.first.turns),
            unseen=made.unseen + form.unseen_flops(region),
        )
        program = program_of(made.traced)
    return made, peak_of(program)


def _says_where(aval: Any) -> bool:
    """Whether a type says how its values lie on devices."""
    spec = getattr(getattr(aval, "sharding", None), "spec", ())
    return any(part is not None for part in spec)


def _is_convolution(op: FlatOp) -> bool:
    return op.steps[-1].equation.primitive.name == "conv_general_dilated"


def _program_in(program: FlatProgram, place: Place, form: _Form) -> Callable[..., Any]:
    """The program as a function of the flat arguments."""
    region, inner = place.region, place.loops[-1].body if place.loops else program
    before = [n for n in range(len(inner.ops)) if n not in region.own | region.after]

    def run(*arguments: Any) -> Any:
        known = dict(enumerate(arguments)) | dict(inner.constants)
        inner.run(before, known)
        known |= _made(inner, region, form, known)
        inner.run(sorted(region.after), known)
        return inner.outputs(known)

    return with_body(program, place.loops, run)


def _made(
    program: FlatProgram, region: Region, form: _Form, known: Mapping[int, Any]
) -> dict[int, Any]:
    """What a region makes of what is known."""
    first, unrolled, apart = form
    avals, given = program.avals, {value: known[value] for value in region.given}
    whole = {value: jnp.zeros(avals[value].shape, avals[value].dtype) for value in region.stacked}
    rows = (first.among,) if apart else ()
    sums = {
        value: jnp.full(
            (*rows, *avals[value].shape), _START[how](dtype := _wide(avals[value].dtype)), dtype
        )
        for value, how in region.combined.items()
    }
    slices_of = slice_of_each_group if apart else slice_of

    def turn(carry: tuple, given: Mapping[int, Any], number: Any) -> tuple:
        whole, sums = (dict(part) for part in carry)
        cut = first._replace(number=number)
        slices, parts = slices_of(program, region, cut, given)
        for (value, axis), one in zip(region.stacked.items(), slices, strict=True):
            whole[value] = cut.put(whole[value], one, axis)
        for (value, how), one in zip(region.combined.items(), parts, strict=True):
            sums[value] = _COMBINE[how](sums[value], one.astype(sums[value].dtype))
        return whole, sums

    def body(carry: tuple, number: Any) -> tuple:
        return turn(carry, given, number), None

    carry = whole, sums
    if unrolled:
        for number in range(first.turns):
            carry = turn(carry, given, number)
            carry, given = jax.lax.optimization_barrier((carry, given))
    else:
        with jax.named_scope(SCOPE):
            carry, _ = jax.lax.scan(body, carry, jnp.arange(first.turns))
    whole, sums = carry
    if apart:
        sums = {value: _ACROSS[region.combined[value]](one) for value, one in sums.items()}
    return whole | {value: one.astype(avals[value].dtype) for value, one in sums.items()}


def _wide(dtype: Any) -> Any:
    """What parts are added up in."""
    is_narrow = jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits < 32
    return jnp.dtype(jnp.float32) if is_narrow else dtype


def _least(dtype: Any) -> Any:
    return -jnp.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min


def _most(dtype: Any) -> Any:
    return jnp.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).max


_START: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {"add": lambda dtype: 0, "max": _least, "min": _most, LAST: lambda dtype: 0}
)
_COMBINE: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {"add": jnp.add, "max": jnp.maximum, "min": jnp.minimum, LAST: lambda before, last: last}
)
_ACROSS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "add": lambda rows: rows.sum(0),
        "max": lambda rows: rows.max(0),
        "min": lambda rows: rows.min(0),
        LAST: lambda rows: rows[-1],
    }
)

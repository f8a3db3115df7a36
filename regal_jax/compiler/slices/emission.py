"""A program with a region of it run slice by slice: the same numbers, but for rounding of sums.

Of a batch in parts gradients are added up part by part, and what is kept from the forward to the
backward pass is of one part. No work is done again; what is left is smaller, and takes longer where
a slice is too small for the device.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from regal_jax.compiler.barriers.emission import with_program
from regal_jax.compiler.slices.dims import Dim, sliced
from regal_jax.compiler.slices.regions import Region, SlicedOp, best_region
from regal_jax.graphs.importers.jax.flat_program import (
    FlatOp,
    FlatProgram,
    Step,
    run_equation,
    value_of,
)

TURNS = (2, 4, 8, 16)
"""Slices, or the next lower number that divides all sizes."""

MOST_UNROLLED = 10_000
"""Ops of a region, over all its slices, if these are no loop."""


class InSlices(NamedTuple):
    """A traced function with a region in so many slices.

    Attributes:
      traced: as ``jax.jit(fn).trace(...)``.
      turns: slices.
      unrolled: whether the slices are one after another, by barriers, rather than a loop.
      unseen: FLOPs of all slices but one, if they are a loop.
    """

    traced: Any
    turns: int
    unrolled: bool
    unseen: float


def in_slices(traced: Any, program: FlatProgram, *, for_cpus: bool) -> list[InSlices]:
    """The traced function with its best region in ever more slices; none if none is worth it.

    XLA:CPU runs convolutions in loops slowly, those of gradients tens of times, so there they are
    unrolled.

    Args:
      traced: ``jax.jit(fn).trace(...)``.
      program: its ops.
      for_cpus: whether it is compiled for these.
    """
    region = best_region(program)
    if region is None:
        return []
    unrolled = for_cpus and any(_is_convolution(one.op) for one in region.ops.values())
    most = MOST_UNROLLED // len(region.ops) if unrolled else max(TURNS)
    divisors = [n for n in range(2, region.divisor + 1) if region.divisor % n == 0 and n <= most]
    numbers = {max((n for n in divisors if n <= turns), default=0) for turns in TURNS} - {0}
    return [
        InSlices(
            with_program(traced, _program_in(program, region, turns, unrolled)),
            turns,
            unrolled,
            0.0 if unrolled else region.flops * (1 - 1 / turns),
        )
        for turns in sorted(numbers)
    ]


def _is_convolution(op: FlatOp) -> bool:
    return op.steps[-1].equation.primitive.name == "conv_general_dilated"


def _program_in(
    program: FlatProgram, region: Region, turns: int, unrolled: bool
) -> Callable[..., Any]:
    """The program as a function of the flat arguments."""
    before = [n for n in range(len(program.ops)) if n not in region.own | region.after]

    def run(*arguments: Any) -> Any:
        known = dict(enumerate(arguments)) | dict(program.constants)
        program.run(before, known)
        known |= _made(program, region, turns, unrolled, known)
        program.run(sorted(region.after), known)
        return program.outputs(known)

    return run


def _made(
    program: FlatProgram, region: Region, turns: int, unrolled: bool, known: Mapping[int, Any]
) -> dict[int, Any]:
    """What a region makes of what is known."""
    avals, given = program.avals, {value: known[value] for value in region.given}
    whole = {value: jnp.zeros(avals[value].shape, avals[value].dtype) for value in region.stacked}
    sums = {
        value: jnp.full(avals[value].shape, _START[how](dtype := _wide(avals[value].dtype)), dtype)
        for value, how in region.combined.items()
    }

    def turn(carry: tuple, given: Mapping[int, Any], number: Any) -> tuple:
        whole, sums = (dict(part) for part in carry)
        made = _Turn(program, turns, number, given)
        for one in region.ops.values():
            made.run(one)
        for value, axis in region.stacked.items():
            part = made.slices[value, axis]
            begin = number * part.shape[axis]
            whole[value] = jax.lax.dynamic_update_slice_in_dim(whole[value], part, begin, axis)
        for value, how in region.combined.items():
            part = made.wholes[value].astype(sums[value].dtype)
            sums[value] = _COMBINE[how](sums[value], part)
        return whole, sums

    def body(carry: tuple, number: Any) -> tuple:
        return turn(carry, given, number), None

    carry = whole, sums
    if unrolled:
        for number in range(turns):
            carry = turn(carry, given, number)
            carry, given = jax.lax.optimization_barrier((carry, given))
    else:
        carry, _ = jax.lax.scan(body, carry, jnp.arange(turns))
    whole, sums = carry
    return whole | {value: one.astype(avals[value].dtype) for value, one in sums.items()}


class _Turn:
    """What one slice of a region makes.

    Args:
      program: all of it. turns: slices. number: this one's, from 0.
      given: values from outside.

    Attributes:
      slices: of values along axes. wholes: values that are this slice's part of what all make.
    """

    def __init__(self, program: FlatProgram, turns: int, number: Any, given: Mapping[int, Any]):
        self._avals, self._turns, self._number, self._given = program.avals, turns, number, given
        self.slices: dict[tuple[int, int], Any] = {}
        self.wholes: dict[int, Any] = {}

    def run(self, one: SlicedOp) -> None:
        """Makes what an op writes."""
        for step, dim in one.steps:
            if dim is None:
                made = run_equation(step.equation, [self._whole(atom) for atom in step.inputs])
                self.wholes.update(zip(step.outputs, made, strict=True))
            else:
                self._slice(step, dim)

    def _slice(self, step: Step, dim: Dim) -> None:
        inputs = [
            self._whole(atom) if axis is None else self._slice_of(atom, axis)
            for atom, axis in zip(step.inputs, dim.inputs, strict=True)
        ]
        equation = sliced(step.equation, dim, self._turns)
        outputs = run_equation(equation, inputs)
        for value, axis, made in zip(step.outputs, dim.outputs, outputs, strict=True):
            if axis is None:
                self.wholes[value] = made
            elif (
                step.equation.primitive.name == "iota" and step.equation.params["dimension"] == axis
            ):
                self.slices[value, axis] = made + jnp.asarray(
                    self._number * made.shape[axis], made.dtype
                )
            else:
                self.slices[value, axis] = made

    def _whole(self, atom: Any) -> Any:
        if isinstance(atom, int) and atom in self.wholes:
            return self.wholes[atom]
        return value_of(atom, self._given)

    def _slice_of(self, value: Any, axis: int) -> Any:
        if (value, axis) not in self.slices:
            size = self._avals[value].shape[axis] // self._turns
            cut = jax.lax.dynamic_slice_in_dim(self._whole(value), self._number * size, size, axis)
            self.slices[value, axis] = cut
        return self.slices[value, axis]


def _wide(dtype: Any) -> Any:
    """What parts are added up in."""
    is_narrow = jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits < 32
    return jnp.dtype(jnp.float32) if is_narrow else dtype


def _least(dtype: Any) -> Any:
    return -jnp.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min


def _most(dtype: Any) -> Any:
    return jnp.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).max


_START: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {"add": lambda dtype: 0, "max": _least, "min": _most}
)
_COMBINE: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {"add": jnp.add, "max": jnp.maximum, "min": jnp.minimum}
)

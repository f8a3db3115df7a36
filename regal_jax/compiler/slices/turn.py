"""What one slice of a program makes."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from regal_jax.compiler.slices.cut import Cut
from regal_jax.compiler.slices.dims import Axis, Dim, sliced
from regal_jax.compiler.slices.indexed import of_slice
from regal_jax.compiler.slices.random_bits import bits_of_slice
from regal_jax.graphs.importers.jax.flat_program import (
    Atom,
    FlatProgram,
    Step,
    run_equation,
    value_of,
)
from regal_jax.graphs.importers.jax.scans import Scan


class Body(NamedTuple):
    """How a scan is sliced.

    Attributes:
      scan: what it is.
      program: its body.
      steps: of that, and their dimensions; None for those that run whole.
      arguments, results: of the body, and the axis that each is sliced along.
      of_turns: whether a slice is a part of the turns, each of which runs whole.
    """

    scan: Scan
    program: FlatProgram
    steps: tuple[tuple[Step, Dim | None], ...]
    arguments: tuple[Axis, ...]
    results: tuple[Axis, ...]
    of_turns: bool = False


class Turn:
    """What one slice makes.

    Args:
      program: all of it.
      cut: where it lies.
      known: values that are there.
      slices: of values that are there, along axes.

    Attributes:
      slices: of values along axes.
      wholes: values; or, of what all slices make, this one's part.
    """

    def __init__(
        self,
        program: FlatProgram,
        cut: Cut,
        known: Mapping[int, Any],
        slices: Mapping[tuple[int, int], Any] | None = None,
    ):
        self._avals, self._cut = program.avals, cut
        self.slices = dict(slices or {})
        self.wholes = dict(known)

    def run(self, step: Step, dim: Dim | None) -> None:
        """Makes what an equation writes."""
        axes = dim.inputs if dim else (None,) * len(step.inputs)
        inputs = [self.read(*pair) for pair in zip(step.inputs, axes, strict=True)]
        for place in dim.once if dim else ():
            inputs[place] = self._once(inputs[place])
        if dim is None:
            self.wholes.update(zip(step.outputs, run_equation(step.equation, inputs), strict=True))
            return
        made = self._slice(step.equation, dim, inputs)
        for value, axis, one in zip(step.outputs, dim.outputs, made, strict=True):
            if axis is None:
                self.wholes[value] = one
            else:
                self.slices[value, axis] = one

    def read(self, atom: Atom, axis: Axis) -> Any:
        """A value, or its slice along an axis."""
        if axis is None:
            return value_of(atom, self.wholes)
        assert isinstance(atom, int)
        if (atom, axis) not in self.slices:
            self.slices[atom, axis] = self._cut.take(self.wholes[atom], axis)
        return self.slices[atom, axis]

    def _once(self, whole: Any) -> Any:
        """What all slices add to, in the first of them; nothing in the others."""
        return jnp.where(self._cut.number == 0, whole, jnp.zeros_like(whole))

    def _slice(self, equation: Any, dim: Dim, inputs: Sequence[Any]) -> Sequence[Any]:
        if dim.body is not None:
            return _run_scan(dim.body, self._cut, inputs)
        axis = dim.outputs[0]
        if equation.primitive.name == "random_bits":
            assert axis is not None
            return [bits_of_slice(equation, inputs[0], axis, self._cut)]
        if dim.coordinate is not None:
            assert dim.inputs[0] is not None
            return of_slice(equation, dim.inputs[0], dim.coordinate, inputs, self._cut)
        made = run_equation(sliced(equation, dim, self._cut.turns), inputs)
        if equation.primitive.name == "iota" and equation.params["dimension"] == axis:
            return [self._cut.places(one, equation.params["shape"][axis]) for one in made]
        return made


def _run_scan(body: Body, cut: Cut, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a slice of a scan."""
    scan = body.scan
    if body.of_turns:
        _consts, _carry, xs = scan.parts(inputs)
        scan = scan._replace(length=len(xs[0]))

    def run(*values: Any) -> list[Any]:
        known, slices = dict(body.program.constants), {}
        for value, one in enumerate(values):
            axis = body.arguments[value]
            if axis is None:
                known[value] = one
            else:
                slices[value, axis] = one
        turn = Turn(body.program, cut, known, slices)
        for step, dim in body.steps:
            turn.run(step, dim)
        return [turn.read(*pair) for pair in zip(body.program.results, body.results, strict=True)]

    return scan.run_flat(run, inputs)

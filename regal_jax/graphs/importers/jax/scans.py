"""Scans among a program's equations."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr, JaxprEqn

from regal_jax.graphs.importers.jax.program import open_program


class Scan(NamedTuple):
    """A scan's parameters, as ``jax.lax.scan`` has them.

    Attributes:
      body: a function of constants, carry, and slices of the stacked arguments; of carry, and
        slices of the stacked results.
      consts, carry: how many.
      length, reverse, unroll: of the turns.
    """

    body: ClosedJaxpr
    consts: int
    carry: int
    length: int
    reverse: bool
    unroll: int

    def parts(self, values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        """(constants, first carry, stacked arguments) of the scan's inputs."""
        end = self.consts + self.carry
        return values[: self.consts], values[self.consts : end], values[end:]

    def run(self, body: Callable, carry: Sequence[Any], xs: Any) -> tuple[Any, Any]:
        """Another body, as often and in the same direction."""
        return jax.lax.scan(body, tuple(carry), xs, self.length, self.reverse, self.unroll)

    def run_flat(self, body: Callable, inputs: Sequence[Any]) -> list[Any]:
        """The scan's outputs, of its inputs, by another function of what the body takes, to a list
        of what it gives."""
        consts, first, xs = self.parts(inputs)

        def turn(carry: Sequence[Any], xs: Sequence[Any]) -> tuple:
            made = body(*consts, *carry, *xs)
            return tuple(made[: self.carry]), tuple(made[self.carry :])

        last, stacks = self.run(turn, first, tuple(xs))
        return [*last, *stacks]


def scan_of(equation: JaxprEqn) -> Scan | None:
    """The scan that an equation is, if it is one."""
    if equation.primitive.name != "scan":
        return None
    jaxpr, constants = open_program(equation.params["jaxpr"])
    body = ClosedJaxpr(jaxpr, constants)
    carry = _unstacked(equation.outvars, body.out_avals)
    consts = _unstacked(equation.invars, body.in_avals) - carry
    ways = (equation.params[name] for name in ("length", "reverse", "unroll"))
    return Scan(body, consts, carry, *ways)


def _unstacked(atoms: Sequence[Any], avals: Sequence[Any]) -> int:
    """How many of a scan's values come before those that its body has slices of."""
    of_body = (atom.aval.shape == aval.shape for atom, aval in zip(atoms, avals, strict=True))
    return sum(of_body)

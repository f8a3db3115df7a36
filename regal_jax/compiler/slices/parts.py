"""Parts of sums: what each slice makes of what all slices add up to."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.extend.core import JaxprEqn, Literal

from regal_jax.compiler.slices.dims import PART, Axis
from regal_jax.graphs.importers.jax.flat_program import Atom

ADDING = frozenset({"add", "add_any", "sub"})

_MOVING = frozenset(
    {
        *("broadcast_in_dim", "convert_element_type", "copy", "div", "neg", "optimization_barrier"),
        *("reduce_sum", "reshape", "rev", "slice", "split", "squeeze", "transpose"),
    }
)
_PRODUCTS = frozenset({"conv_general_dilated", "dot_general", "mul"})
_ALL = ADDING | {"concatenate"}
"""They make parts of parts: of the first operand, of either of two, and of all."""


def state_of(atom: Atom, states: Mapping[int, Axis]) -> Axis:
    """The axis along which a value is sliced, None if it is whole, as literals are, or PART."""
    return states.get(atom) if isinstance(atom, int) else None


def keeps_parts(equation: JaxprEqn, read: Sequence[Axis]) -> bool:
    """Whether an equation makes parts of what it reads, or may: where it adds what is whole to a
    part, that has to be a part, too (``adds_whole``)."""
    name = equation.primitive.name
    if not {PART, None}.issuperset(read) or _rounds(equation):
        return False
    if name in _PRODUCTS:
        return read.count(PART) == 1
    is_moved = name in _MOVING or (name == "pad" and _is_zero(equation.invars[1]))
    return name in _ALL or (is_moved and read[0] == PART and read.count(PART) == 1)


def adds_whole(equation: JaxprEqn, read: Sequence[Axis]) -> bool:
    """Whether an equation adds what is whole to a part of a sum: each slice would count it."""
    return equation.primitive.name in _ALL and set(read) != {PART}


def _is_zero(atom: Any) -> bool:
    return isinstance(atom, Literal) and not np.any(atom.val)


def _rounds(equation: JaxprEqn) -> bool:
    """Whether an equation makes integers of parts by rounding."""
    avals: list[Any] = [equation.invars[0].aval, equation.outvars[0].aval]
    of, to = (aval.dtype for aval in avals)
    is_to_integers = not jnp.issubdtype(to, jnp.inexact)
    return is_to_integers and (equation.primitive.name == "div" or of != to)

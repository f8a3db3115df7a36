"""Gradients of max-pooling without arrays of indices.

For where the maximum of a window lies the compilers for CPUs and GPUs keep an array of integers for
each dimension, and scatter to these; TPUs' doesn't. Here a byte a window tells, and what goes to
each place of a window is added up one place after another: the same numbers, in the same order of
addition. (Where XLA may keep bfloat16 in more bits, sums of overlapping windows are more exact.)
"""

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from regal_jax.graphs.importers.jax.flat_program import FlatOp, FlatProgram

MOST_PLACES = 27
"""Of a window, such as 3x3x3: each place takes a pass over the array."""

_GRADIENT = "select_and_scatter_add"


def without_indices(program: FlatProgram) -> FlatProgram:
    """The same program; its gradients of max-pooling are calls of ``max_pool_gradient``, each of
    which is an op as before."""
    return program._replace(ops=tuple(map(_without_indices, program.ops)))


def _without_indices(op: FlatOp) -> FlatOp:
    *before, last = op.steps
    equation = last.equation
    params = equation.params
    if equation.primitive.name != _GRADIENT:
        return op
    if math.prod(params["window_dimensions"]) > MOST_PLACES:
        return op

    def max_pool_gradient(source: jax.Array, operand: jax.Array) -> jax.Array:
        return _max_pool_gradient(source, operand, **params)

    avals: list[Any] = [atom.aval for atom in equation.invars]
    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
    (call,) = jax.make_jaxpr(jax.jit(max_pool_gradient))(*shapes).eqns
    call = call.replace(source_info=equation.source_info)
    return op._replace(steps=(*before, last._replace(equation=call)))


def _max_pool_gradient(
    source: jax.Array,
    operand: jax.Array,
    *,
    select_prim: Any,
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
) -> jax.Array:
    """``select_and_scatter_add`` as JAX defines it for CPUs and GPUs.

    The first of equal maxima is selected, of what is padded, too; minima likewise.
    """
    places = list(itertools.product(*map(range, window_dimensions)))
    worst = jnp.asarray(-jnp.inf if select_prim is lax.ge_p else jnp.inf, operand.dtype)
    padded = lax.pad(operand, worst, [(low, high, 0) for low, high in padding])

    def at(place: tuple[int, ...]) -> jax.Array:
        ends = list(map(_end, place, source.shape, window_strides))
        return lax.slice(padded, place, ends, window_strides)

    best, chosen = at(places[0]), jnp.zeros(source.shape, jnp.uint8)
    for number, place in enumerate(places[1:], 1):
        stays = select_prim.bind(best, here := at(place))
        best, chosen = jnp.where(stays, best, here), jnp.where(stays, chosen, jnp.uint8(number))
    total, zero = jnp.zeros(operand.shape, source.dtype), jnp.zeros((), source.dtype)
    lows = [low for low, _ in padding]
    for number, place in reversed(list(enumerate(places))):  # windows from the first to the last
        wide = list(map(_wide, place, source.shape, window_strides, lows, operand.shape))
        total += lax.pad(jnp.where(chosen == number, source, zero), zero, wide)
    return total


def _end(first: int, number: int, stride: int) -> int:
    """Behind the last of so many places."""
    return first + (number - 1) * stride + 1


def _wide(place: int, number: int, stride: int, low: int, size: int) -> tuple[int, int, int]:
    """How ``lax.pad`` spreads a window's value each to this place of it, in the whole array."""
    first = place - low
    return first, size - _end(first, number, stride), stride - 1

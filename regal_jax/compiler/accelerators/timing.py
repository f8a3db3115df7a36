"""How long a compiled program takes on the device that it is for, where that is there.

Its arguments are zeros: what a program does depends on them where a loop's trips do, so programs
with such loops aren't timed.
"""

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr

BLOCKS = 5
CALLS = 5
"""Timings, the median of which counts, and calls of each."""


def run_seconds(compiled: Any) -> float | None:
    """Seconds of a call; None where the device has no room for it beside what it holds."""
    shapes, where = compiled.args_info, compiled.input_shardings
    donates = any(one.donated for one in jax.tree.leaves(shapes))
    try:
        given = [_zeros(shapes, where) for _ in range(CALLS if donates else 1)]
        jax.block_until_ready(compiled(*given[0][0], **given[0][1]))
        found = []
        for _ in range(BLOCKS):
            each = [_zeros(shapes, where) for _ in range(CALLS)] if donates else given * CALLS
            found.append(seconds_a_call(compiled, each))
    except jax.errors.JaxRuntimeError as error:
        if is_full(error):
            return None
        raise
    return statistics.median(found)


def seconds_a_call(compiled: Any, calls: Sequence[tuple[tuple, Mapping[str, Any]]]) -> float:
    """Seconds of a call among these, one behind another: (arguments, named ones) of each."""
    begin = time.perf_counter()
    for args, kwargs in calls:
        results = compiled(*args, **kwargs)
    jax.block_until_ready(results)
    return (time.perf_counter() - begin) / len(calls)


def is_full(error: jax.errors.JaxRuntimeError) -> bool:
    """Whether the device had no room."""
    return "RESOURCE_EXHAUSTED" in str(error)


def has_fixed_trips(traced: Any) -> bool:
    """Whether no loop of a traced function runs until its arguments say so."""
    return all(one.primitive.name != "while" for one in _equations(traced.jaxpr.jaxpr))


def _zeros(shapes: Any, where: Any) -> Any:
    """Arguments, positional and named."""

    def zeros(shape: Any, sharding: Any) -> jax.Array:
        if jax.dtypes.issubdtype(shape.dtype, jax.dtypes.prng_key):
            keys = jax.random.split(jax.random.key(0), shape.shape)
            return jax.device_put(keys, sharding)
        return jax.device_put(jnp.zeros(shape.shape, shape.dtype), sharding)

    return jax.block_until_ready(jax.tree.map(zeros, shapes, where))


def _equations(jaxpr: Any) -> Iterator[Any]:
    for one in jaxpr.eqns:
        yield one
        for value in jax.tree.leaves(one.params, is_leaf=_is_program):
            if _is_program(value):
                yield from _equations(getattr(value, "jaxpr", value))


def _is_program(value: Any) -> bool:
    return isinstance(value, ClosedJaxpr | Jaxpr)

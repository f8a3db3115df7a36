"""Floats compared as integers: exactly, whatever the mode of the thread that compares them.

Threads of XLA take denormal numbers (below 2**-126) for 0, those of Python don't, so that the same
genes would mean one schedule in a jitted function and another outside. Integers have no such mode.
"""

import chex
import jax
import jax.numpy as jnp

LEAST = -(2**31)
"""Below the key of every number, infinities included."""


def keys(values: chex.Array) -> jax.Array:
    """int32, in the order of float32 ``values``; those of 0.0 and -0.0 are equal."""
    bits = jax.lax.bitcast_convert_type(values, jnp.int32)
    return jnp.where(bits < 0, (bits ^ 0x7FFFFFFF) + (bits == LEAST), bits)

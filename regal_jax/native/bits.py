"""Bits, in compiled kernels. A bitset has member i as bit i % 64 of word i // 64.

Words are int64: numba turns uint64 mixed with int64 into float64.
"""

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from regal_jax.native.compilation import inlined


@intrinsic
def lowest(typing_context, word):
    """The index of the lowest bit that is set, of an int64 that is not 0."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


@inlined
def bit(member):
    """The bit of a member in its word."""
    return np.int64(1) << (np.int64(member) & 63)


@inlined
def add(words, member):
    """Adds a member to a set; returns the index of its word."""
    word = np.int64(member) >> 6
    words[word] |= bit(member)
    return word


@intrinsic
def of_float(typing_context, number):
    """A float64's bits as int64; grows with the number where it is not negative."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic
def as_float(typing_context, bits):
    """The float64 of an int64's bits."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate

"""Arrays in one buffer: a graph's columns as one operand of jitted programs, and a kernel's working
arrays as one allocation.

A packed buffer begins with the columns' lengths, int64 each. Every column begins at a multiple of
eight bytes. Numbers of eight bytes are kept bit for bit: nothing is rounded, whatever JAX's
precision.
"""

from collections.abc import Sequence

import numpy as np
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from regal_jax.native.compilation import inlined_with_arrays


def pack(columns: Sequence[np.ndarray]) -> np.ndarray:
    """int32[P]: all columns in one buffer, of an even number of words."""
    parts = [np.array([len(column) for column in columns], np.int64).view(np.int32)]
    for column in columns:
        words = np.ascontiguousarray(column).view(np.int32)
        parts += [words, np.zeros(len(words) % 2, np.int32)]
    return np.concatenate(parts)


def unpack(buffer: np.ndarray, dtypes: Sequence[type]) -> list[np.ndarray]:
    """The columns of a packed buffer, as views of it; padding at its end is ignored."""
    position, columns = 2 * len(dtypes), list[np.ndarray]()
    lengths = buffer[:position].view(np.int64)
    for dtype, length in zip(dtypes, lengths.tolist(), strict=True):
        words = length * np.dtype(dtype).itemsize // 4
        columns.append(buffer[position : position + words].view(dtype))
        position += words + words % 2
    return columns


@intrinsic
def _pointer(typing_context, address):
    """An integer as a void pointer."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.uintp), generate


@inlined_with_arrays
def array(address, shape, dtype):
    """The array in C order at an address."""
    return carray(_pointer(types.uintp(address)), shape, dtype)


@inlined_with_arrays
def words(address, length):
    """int64[length] at an address."""
    return array(address, (length,), np.int64)


@inlined_with_arrays
def wide(address, length):
    """(int64[length] at an address, the address behind it)."""
    return words(address, length), address + 8 * length


@inlined_with_arrays
def unsigned(address, length):
    """(uint64[length] at an address, the address behind it)."""
    return array(address, (length,), np.uint64), address + 8 * length


@inlined_with_arrays
def floats(address, length):
    """(float64[length] at an address, the address behind it)."""
    return array(address, (length,), np.float64), address + 8 * length


@inlined_with_arrays
def narrow(address, length):
    """(int32[length] at an address, the address behind it, a multiple of eight)."""
    return array(address, (length,), np.int32), address + 4 * (length + length % 2)

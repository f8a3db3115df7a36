"""Kernels inside jitted programs: XLA custom calls, no Python and no GIL on the way.

``jax.pure_callback`` would hand its operands to Python through the thread pool that waits for the
answer, which deadlocks on machines with few cores; and programs with host callbacks never enter
JAX's persistent compilation cache. So a kernel is registered as a typed FFI handler: a C function
that reads XLA's call frame (structures of xla/ffi/api/c_api.h, as 8-byte words).

A handler is a function of the frame's address. It begins with ``is_call`` and returns 0, no error.
"""

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from regal_jax.native import compilation
from regal_jax.native.compilation import inlined_with_arrays
from regal_jax.native.packing import words

# XLA_FFI_CallFrame: extension, api, operands and results, by word. The last two are
# XLA_FFI_Args and XLA_FFI_Rets within the frame, whose fourth and fifth words are arrays.
_EXTENSION, _API, _OPERANDS, _RESULTS, _FRAME_WORDS = 1, 2, 9, 14, 15
# XLA_FFI_Buffer.
_DATA, _DIMS, _BUFFER_WORDS = 3, 5, 6


def call(
    target: str,
    handler: Callable,
    operands: tuple,
    shape: tuple[int, ...],
    *,
    scratch_words: int,
    vmap_method: str | None = None,
) -> jax.Array:
    """float32[shape]: what a handler computes.

    Args:
      target: the handler's name in XLA.
      handler: see above. Its results are the numbers, then the working memory.
      operands: arrays.
      scratch_words: 8-byte words of working memory.
      vmap_method: as in ``jax.ffi.ffi_call``.
    """
    register(target, handler)
    results = (
        jax.ShapeDtypeStruct(shape, np.float32),
        jax.ShapeDtypeStruct((2 * scratch_words,), np.int32),
    )
    return jax.ffi.ffi_call(target, results, vmap_method=vmap_method)(*operands)[0]


@functools.cache
def register(target: str, handler: Callable) -> Any:
    """Compiles a handler (cached on disk), registers it with XLA once a process, and returns it."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    compiled = compilation.callback(handler)
    capsule = new(compiled.address, None, None)
    jax.ffi.register_ffi_target(target, capsule, platform="cpu", api_version=1)
    return compiled  # the cache keeps it alive


@inlined_with_arrays
def is_call(frame_address):
    """Whether a frame is a call. Else it is a question for the API's version, which is answered
    with the version of the runtime that asks."""
    frame = words(frame_address, _FRAME_WORDS)
    if frame[_EXTENSION] == 0:
        return True
    extension = words(frame[_EXTENSION], 4)
    words(extension[3], 4)[3] = words(frame[_API], 5)[4]
    return False


@inlined_with_arrays
def operand(frame_address, index):
    """(address of the data, address of the dimensions int64[...]) of an operand."""
    return _buffer(words(frame_address, _FRAME_WORDS)[_OPERANDS], index)


@inlined_with_arrays
def result(frame_address, index):
    """The address of a result's data."""
    return _buffer(words(frame_address, _FRAME_WORDS)[_RESULTS], index)[0]


@inlined_with_arrays
def _buffer(buffers, index):
    buffer = words(words(buffers, index + 1)[index], _BUFFER_WORDS)
    return buffer[_DATA], buffer[_DIMS]

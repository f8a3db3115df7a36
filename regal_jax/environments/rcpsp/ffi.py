"""Machine problems' kernels inside jitted programs: XLA custom calls (see ``native_call``)."""

import ctypes
import functools

import jax
import numba
import numpy as np
from numba import types

from regal_jax.environments.rcpsp import kernel

TARGETS = ("regal_jax_machines", "regal_jax_machines_serial", "regal_jax_machines_lookahead")
"""By generation."""


def makespans(packed, chromosomes, generation: int, *, scratch_words: int):
    """float32[B]: makespans of chromosomes.

    Args:
      packed: int32[P], what ``pack`` makes of a graph; padding at its end is ignored, so graphs of
        one length share a compilation.
      chromosomes: float32[B, genes]. Genes may be padded: priorities begin at 0, windows (of
        lookahead generation) in the middle.
      generation: ``kernel.PARALLEL``, ``SERIAL`` or ``LOOKAHEAD``.
      scratch_words: at least ``machine_native.scratch_words(graph)``.
    """
    register(generation)
    results = (
        jax.ShapeDtypeStruct(chromosomes.shape[:1], np.float32),
        jax.ShapeDtypeStruct((2 * scratch_words,), np.int32),
    )
    call = jax.ffi.ffi_call(TARGETS[generation], results, vmap_method="sequential")
    return call(packed, chromosomes)[0]


@functools.cache
def register(generation: int) -> object:
    """Compiles a handler (cached on disk), registers it with XLA once a process, and returns it."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    handler = numba.cfunc(types.uintp(types.uintp), cache=True, nogil=True, error_model="numpy")(
        kernel.HANDLERS[generation]
    )
    capsule = new(handler.address, None, None)
    jax.ffi.register_ffi_target(TARGETS[generation], capsule, platform="cpu", api_version=1)
    return handler  # the cache keeps it alive

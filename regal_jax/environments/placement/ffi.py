"""The compiled kernel inside jitted programs: an XLA custom call, no Python and no GIL on the way.

``jax.pure_callback`` would hand its operands to Python through the thread pool that waits for the
answer, which deadlocks on machines with few cores; and programs with host callbacks never enter
JAX's persistent compilation cache. So the kernel is registered as a typed FFI handler: a C function
that reads XLA's call frame (structures of xla/ffi/api/c_api.h, as 8-byte words).
"""

import ctypes
import functools

import jax
import numba
import numpy as np
from numba import types

from regal_jax.environments.placement import kernel

TARGET = "regal_jax_evaluate"


def options(
    num_devices: int,
    num_ops: int,
    with_makespan: bool,
    latency: float,
    per_byte: float,
    capacities: tuple[float, ...] | None,
) -> np.ndarray:
    """int32[2 * (6 + D)]: the kernel's options as 8-byte words, capacities [bytes] last."""
    numbers = np.array([latency, per_byte, *(capacities or [np.inf] * num_devices)])
    words = [num_devices, num_ops, with_makespan, capacities is not None]
    return np.concatenate([np.array(words, np.int64), numbers.view(np.int64)]).view(np.int32)


def batch_costs(packed, chromosomes, options: np.ndarray, *, scratch_words: int):
    """float32[N, B]: costs of N graphs' chromosomes (see ``fitness.costs``).

    Args:
      packed: int32[N, P], graphs as ``native_graph.pack`` writes them.
      chromosomes: float32[N, B, genes].
      options: see ``options``.
      scratch_words: 8-byte words of working memory, see ``scratch_words``.
    """
    register()
    results = (
        jax.ShapeDtypeStruct(chromosomes.shape[:2], np.float32),
        jax.ShapeDtypeStruct((2 * scratch_words,), np.int32),
    )
    return jax.ffi.ffi_call(TARGET, results)(packed, chromosomes, options)[0]


def scratch_words(num_ops: int, num_tensors: int, num_devices: int) -> int:
    """8-byte words of working memory for graphs of up to this size (see ``kernel``)."""
    copies = num_tensors * num_devices
    return 5 * (num_ops + 1) + 2 * (copies + 1) + 4 * num_devices + 8


@functools.cache
def register() -> None:
    """Compiles the handler (cached on disk) and registers it with XLA, once a process."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    handler = numba.cfunc(types.uintp(types.uintp), cache=True, nogil=True, error_model="numpy")(
        kernel.handle_call
    )
    register.handler = handler  # type: ignore[attr-defined]
    capsule = new(handler.address, None, None)
    jax.ffi.register_ffi_target(TARGET, capsule, platform="cpu", api_version=1)

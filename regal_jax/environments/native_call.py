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
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from regal_jax.environments import native
from regal_jax.environments.native_graph import NativeGraph

TARGET = "regal_jax_evaluate"

_inlined = functools.partial(
    numba.njit, cache=True, nogil=True, error_model="numpy", forceinline=True
)


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
    """8-byte words of working memory for graphs of up to this size (see ``_scratch``)."""
    copies = num_tensors * num_devices
    return 5 * (num_ops + 1) + 2 * (copies + 1) + 4 * num_devices + 8


@functools.cache
def register() -> None:
    """Compiles the handler (cached on disk) and registers it with XLA, once a process."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    handler = numba.cfunc(types.uintp(types.uintp), cache=True, nogil=True, error_model="numpy")(
        _handle
    )
    register.handler = handler  # type: ignore[attr-defined]
    capsule = new(handler.address, None, None)
    jax.ffi.register_ffi_target(TARGET, capsule, platform="cpu", api_version=1)


@intrinsic
def _pointer(typing_context, address):
    """An integer as a void pointer."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.uintp), generate


@_inlined()
def _words(address, count):
    return carray(_pointer(types.uintp(address)), (count,), np.int64)


@_inlined()
def _buffer(buffers, index):
    """(address of the data, address of the dimensions) of an XLA_FFI_Buffer."""
    buffer = _words(_words(buffers, index + 1)[index], 6)
    return buffer[3], buffer[5]


def _handle(frame_address):
    """The FFI handler. XLA_FFI_CallFrame: extension at word 1, args at 5.., results at 10..."""
    frame = _words(frame_address, 15)
    if frame[1] != 0:
        _write_metadata(frame)
        return types.uintp(0)
    packed, packed_dims = _buffer(frame[9], 0)
    genes, gene_dims = _buffer(frame[9], 1)
    choices, _ = _buffer(frame[9], 2)
    results, _ = _buffer(frame[14], 0)
    scratch, _ = _buffer(frame[14], 1)
    shape = _words(gene_dims, 3)
    row_words = _words(packed_dims, 2)[1]
    for index in range(shape[0]):
        rows = index * shape[1]
        _evaluate_graph(
            packed + 4 * index * row_words,
            genes + 4 * rows * shape[2],
            choices,
            results + 4 * rows,
            scratch,
            shape,
        )
    return types.uintp(0)


@_inlined()
def _write_metadata(frame):
    """Answers XLA's question for the API version with the version of the runtime that asks."""
    extension = _words(frame[1], 4)
    _words(extension[3], 4)[3] = _words(frame[2], 5)[4]


@_inlined()
def _evaluate_graph(packed, genes, choices, results, scratch_address, shape):
    graph = _unpack(packed)
    option = _words(choices, 6)
    num_devices, num_ops = option[0], option[1]
    number = carray(_pointer(types.uintp(choices + 32)), (2 + num_devices,), np.float64)
    layout = (num_devices, num_ops * num_devices, num_ops * (num_devices + 1))
    cost_model = (option[2] != 0, number[0], number[1])
    count, num_genes = shape[1], shape[2]
    rows = carray(_pointer(types.uintp(genes)), (count, num_genes), np.float32)
    bits = carray(_pointer(types.uintp(genes)), (count, num_genes), np.uint32)
    out = carray(_pointer(types.uintp(results)), (count,), np.float32)
    scratch, peak, nothing = _scratch(graph, num_devices, scratch_address)
    limit = (option[3] != 0, number[2:])
    _fill(graph, (rows, bits), layout, cost_model, limit, scratch, (peak, nothing, out))


@native._jit()
def _fill(graph, rows, layout, cost_model, limit, scratch, results):
    genes, bits = rows
    peak, nothing, out = results
    limited, capacities = limit
    for row in range(len(out)):
        chromosome = (genes[row], bits[row])
        cost = native._simulate(graph, chromosome, layout, cost_model, scratch, peak, nothing)
        if not cost_model[0]:
            for device in range(layout[0]):
                cost = max(cost, np.float64(peak[device]))
        if limited:
            cost = native.penalised(graph, cost, peak, capacities, cost_model)
        out[row] = cost


@_inlined()
def _unpack(address):
    """The columns of a packed graph, as ``native_graph.unpack``: six wide, then narrow."""
    lengths = _words(address, 16)
    at = address + 8 * 16
    counts, at = _wide(at, lengths[0])
    duration_at = at
    _, at = _wide(at, lengths[1])
    duration = carray(_pointer(types.uintp(duration_at)), (lengths[1],), np.float64)
    workspace, at = _wide(at, lengths[2])
    output_bytes, at = _wide(at, lengths[3])
    private_bytes, at = _wide(at, lengths[4])
    size, at = _wide(at, lengths[5])
    num_dependencies, at = _narrow(at, lengths[6])
    output_offsets, at = _narrow(at, lengths[7])
    release_offsets, at = _narrow(at, lengths[8])
    release_tensors, at = _narrow(at, lengths[9])
    producer, at = _narrow(at, lengths[10])
    persistent, at = _narrow(at, lengths[11])
    consumer_offsets, at = _narrow(at, lengths[12])
    consumer_ops, at = _narrow(at, lengths[13])
    original, at = _narrow(at, lengths[14])
    tracked, at = _narrow(at, lengths[15])
    return NativeGraph(
        counts,
        duration,
        workspace,
        output_bytes,
        private_bytes,
        size,
        num_dependencies,
        output_offsets,
        release_offsets,
        release_tensors,
        producer,
        persistent,
        consumer_offsets,
        consumer_ops,
        original,
        tracked,
    )


@_inlined()
def _wide(address, length):
    """(int64[length] at an address, the address behind it)."""
    return _words(address, length), address + 8 * length


@_inlined()
def _narrow(address, length):
    """(int32[length] at an address, the address behind it, a multiple of eight)."""
    column = carray(_pointer(types.uintp(address)), (length,), np.int32)
    return column, address + 4 * (length + length % 2)


@_inlined()
def _scratch(graph, num_devices, address):
    """The kernel's working arrays, laid into one buffer."""
    num_ops, num_copies = len(graph.duration), len(graph.size) * num_devices
    place, at = _narrow(address, num_ops)
    waiting, at = _narrow(at, num_ops)
    uses, at = _narrow(at, num_copies)
    keys = carray(_pointer(types.uintp(at)), (num_ops,), np.uint64)
    at += 8 * num_ops
    heap = carray(_pointer(types.uintp(at)), (num_ops + num_copies + 2,), np.uint64)
    at += 8 * (num_ops + num_copies + 2)
    memory, at = _wide(at, num_devices)
    finish = carray(_pointer(types.uintp(at)), (num_ops,), np.float64)
    at += 8 * num_ops
    free = carray(_pointer(types.uintp(at)), (num_devices,), np.float64)
    at += 8 * num_devices
    peak, at = _wide(at, num_devices)
    nothing, at = _wide(at, 0)
    return native._Scratch(place, waiting, uses, keys, heap, memory, finish, free), peak, nothing

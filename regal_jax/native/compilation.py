"""Numba's options for compiled kernels, and the key of its cache on disk.

Numba caches a compiled function under a hash of the function's own file, the types of its arguments
and what it closes over. But a kernel contains what it inlines from other files. So every kernel
closes over one hash of all kernels' sources: when any of them changes, all are compiled anew.
"""

import functools
import hashlib
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

SOURCES = (
    "native/*.py",
    "environments/*/columns.py",
    "environments/*/kernel.py",
    "environments/*/kernel/*.py",
    "search/*/kernel*.py",
    "search/*/sides.py",
    "search/*/states.py",
    "search/rcpsp/rules.py",
)
"""Files of the package that kernels are compiled from, or whose tuples they take apart."""


def jit(function: Callable) -> Any:
    """A kernel. It may not allocate: there is no reference counting.

    Without that, and with every helper inlined, kernels are three times as fast and compile in half
    the time (benchmarks/decode.py).
    """
    return _compiled(function, _nrt=False)


def inlined(function: Callable) -> Any:
    """A part of kernels, inlined into each, and nothing that Python could call: what converts its
    arguments would take a quarter of the time that all kernels take to compile."""
    return _compiled(function, _nrt=False, forceinline=True, no_cpython_wrapper=True)


def jit_with_arrays(function: Callable) -> Any:
    """A compiled function that makes arrays, or views of memory that an address points to."""
    return _compiled(function)


def inlined_with_arrays(function: Callable) -> Any:
    """A part of ``jit_with_arrays`` functions, inlined into each; Python can't call it either."""
    return _compiled(function, forceinline=True, no_cpython_wrapper=True)


def callback(function: Callable) -> Any:
    """A C function of one word that returns a word; its ``address`` is valid while it lives."""
    word = numba.types.uintp
    return numba.cfunc(word(word), cache=True, nogil=True, error_model="numpy")(stamped(function))


def stamped(function: Callable) -> Callable:
    """The function, closing over ``source_hash()`` (it has to close over nothing else)."""
    again = types.FunctionType(
        function.__code__.replace(co_freevars=("source_hash",)),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        (types.CellType(source_hash()),),
    )
    return functools.update_wrapper(again, function)


@functools.cache
def source_hash() -> str:
    """A hash of the text of all ``SOURCES``."""
    digest = hashlib.sha256()
    for file in source_files():
        digest.update(f"{file.name} {file.stat().st_size} ".encode() + file.read_bytes())
    return digest.hexdigest()


def source_files() -> list[Path]:
    """The files of ``SOURCES``."""
    package = Path(__file__).parents[1]
    return [file for pattern in SOURCES for file in sorted(package.glob(pattern))]


def _compiled(function: Callable, **options: Any) -> Any:
    """Without what C could call, either: that takes a tenth of the time to compile."""
    options |= {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    return numba.njit(**options)(stamped(function))

"""Numba's cache on disk: kernels that share files, and what makes them compile anew."""

import functools
import importlib
import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

from numba.core.dispatcher import Dispatcher
from numba.extending import _Intrinsic

import regal_jax
from regal_jax.native import compilation

PACKAGE = Path(regal_jax.__file__).parent
HELPER = """
from regal_jax.native.compilation import inlined
@inlined
def helper(x):
    return x + {number}
"""
KERNEL = """
from regal_jax.native.compilation import jit
from regal_jax.native.toy import helper
@jit
def kernel(x):
    return helper(x)
print(kernel(1), sum(kernel.stats.cache_hits.values()))
"""


def test_a_changed_helper_compiles_its_callers_anew(tmp_path):
    copy = tmp_path / "regal_jax"
    shutil.copytree(PACKAGE / "native", copy / "native", ignore=shutil.ignore_patterns("__pyc*"))
    (copy / "__init__.py").touch()
    kernel, helper = copy / "search/toy/kernel.py", copy / "native/toy.py"
    kernel.parent.mkdir(parents=True)
    kernel.write_text(KERNEL)
    environment = os.environ | {
        "PYTHONPATH": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
    }
    run = functools.partial(
        subprocess.run, [sys.executable, kernel], env=environment, capture_output=True, text=True
    )
    helper.write_text(HELPER.format(number=1))
    assert run().stdout == "2 0\n"
    assert run().stdout == "2 1\n"  # from the cache
    helper.write_text(HELPER.format(number=2))
    assert run().stdout == "3 0\n"
    assert run().stdout == "3 1\n"


def test_all_that_kernels_inline_is_hashed():
    files = set(compilation.source_files())
    used_elsewhere = set()
    for function in map(_python, _compiled_functions()):
        assert function.__closure__[0].cell_contents == compilation.source_hash(), function
        others = {Path(inspect.getfile(other)) for other in _uses(function)}
        used_elsewhere |= others - {Path(inspect.getfile(function))}
    assert len(used_elsewhere) > 5
    assert used_elsewhere <= files


def test_the_hash_is_of_every_source():
    assert {pattern for pattern in compilation.SOURCES if not list(PACKAGE.glob(pattern))} == set()
    names = {str(file.relative_to(PACKAGE)) for file in compilation.source_files()}
    assert {"native/heap.py", "environments/rcpsp/kernel/serial.py"} <= names
    assert len(names) == len(compilation.source_files())


def _compiled_functions() -> set[Dispatcher]:
    """All compiled functions of modules that use ``regal_jax.native``."""
    sources = [file for file in PACKAGE.rglob("*.py") if "regal_jax.native" in file.read_text()]
    names = [".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts) for file in sources]
    modules = [importlib.import_module(name.removesuffix(".__init__")) for name in names]
    values = [value for module in modules for value in vars(module).values()]
    return {value for value in values if isinstance(value, Dispatcher)}


def _uses(function) -> list:
    """What compiles into a function: compiled functions, intrinsics, and named tuples."""
    names = function.__code__.co_names
    values = [function.__globals__[name] for name in names if name in function.__globals__]
    inside = [getattr(value, name, None) for value in values for name in names]
    return [_python(value) for value in values + inside if _python(value) is not None]


def _python(value):
    """The Python function, or class, of something that kernels use; None of anything else."""
    if isinstance(value, Dispatcher):
        return value.py_func
    if isinstance(value, _Intrinsic):
        return value._defn
    return value if isinstance(value, type) and hasattr(value, "_fields") else None

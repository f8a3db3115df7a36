"""Compiled programs run side by side: their time, their memory, and that they do the same."""

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

from regal_jax.compiler.accelerators.timing import seconds_a_call
from regal_jax.compiler.routes import compile_best
from regal_jax.compiler.xla.settings import Options
from regal_jax.datasets.jax_train_steps import Program, program

MOST_SECONDS = 30.0
"""Of one comparison, after which no further pair of runs is begun."""

Result = TypeVar("Result")


def compare(name: str, options: Options, pairs: int) -> dict[str, float]:
    """Runs a program as ``jax.jit`` compiles it and in the best order, one after the other.

    Returns:
      equal: 1 if all outputs are the same bit for bit, else 0; difference: the largest, over the
      largest number of all; run_ratio: the median over pairs of
      the time in the best order over the plain one; run_seconds: the median plain time.
    """
    one = program(name)
    traced = one.jitted().trace(*one.shapes)
    plain = traced.lower().compile()
    best, _ = compile_best(traced, traced.lower(), options)
    results = plain(*one.arguments()), best(*one.arguments())
    equal, difference = same_bits(*results), largest_difference(*results)
    ratios: list[float] = []
    seconds: list[float] = []
    begin = time.perf_counter()
    while len(ratios) < pairs and time.perf_counter() - begin < MOST_SECONDS:
        first, second = _seconds(one, plain), _seconds(one, best)
        seconds.append(first)
        ratios.append(second / first)
    return {
        "equal": float(equal),
        "difference": difference,
        "run_ratio": statistics.median(ratios),
        "run_seconds": statistics.median(seconds),
    }


def resident_bytes(name: str, options: Options | None) -> dict[str, float]:
    """Bytes by which a run raises the peak of the process's resident memory (Linux).

    ``options`` None runs the program as ``jax.jit`` compiles it. For a process of its own.
    """
    one = program(name)
    traced = one.jitted().trace(*one.shapes)
    lowered = traced.lower()
    compiled = lowered.compile() if options is None else compile_best(traced, lowered, options)[0]
    arguments = jax.block_until_ready(one.arguments())
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    before = _status("VmRSS")
    jax.block_until_ready(compiled(*arguments))
    return {"resident_bytes": float(_status("VmHWM") - before)}


def in_process(function: Callable[..., Result], *args: Any) -> Result:
    """Calls a function of a module in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *args).result()


def same_bits(left: Any, right: Any) -> bool:
    """Whether two trees of arrays are equal in every bit."""
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


def largest_difference(left: Any, right: Any) -> float:
    """Of the numbers of two trees of arrays, over the largest finite one of all; 0 for none. What
    is the same in both, not a number perhaps, doesn't differ."""
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    both = [(_numbers(a), _numbers(b)) for a, b in pairs]
    largest = max((np.max(abs(a[np.isfinite(a)]), initial=0.0) for a, _ in both), default=0.0)
    found = max((np.max(_apart(a, b), initial=0.0) for a, b in both), default=0.0)
    return float(found / largest) if largest else float(found)


def _numbers(array: Any) -> np.ndarray:
    array = np.asarray(array)
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)


def _apart(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Distances of numbers; infinite where one of two isn't a number."""
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    with np.errstate(invalid="ignore"):
        return np.where(same, 0.0, np.nan_to_num(abs(left - right), nan=np.inf))


def _seconds(one: Program, compiled: Callable[..., Any]) -> float:
    return seconds_a_call(compiled, [(jax.block_until_ready(one.arguments()), {})])


def _status(key: str) -> int:
    """Bytes of a line of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{key}:"))
    return int(line.split()[1]) * 1024

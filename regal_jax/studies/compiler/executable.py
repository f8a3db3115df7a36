"""Compiled programs in files, and how they run: bytes in use, time, and that they do the same."""

import math
import os
import pickle
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jax.experimental import serialize_executable

from regal_jax.compiler.accelerators.timing import is_full, seconds_a_call
from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.datasets import jax_train_steps
from regal_jax.graphs import files
from regal_jax.studies.compiler import side_by_side

BLOCK_SECONDS = 0.05
"""Of calls that are timed together: most is the device's time then, not the host's."""
MOST_CALLS = 100
"""Of one block."""

MEMORY = "0.96"
"""Of the device's memory: what programs may use, which are alone on it."""


class Executable(NamedTuple):
    """A compiled program in a file.

    Attributes:
      path: of what ``serialize_executable`` gives, pickled.
      way: of running it, its name.
      values: what its compiler says, by metric.
    """

    path: Path
    way: str
    values: Mapping[str, float]


def write(compiled: Any, path: Path, way: str, values: Mapping[str, float]) -> Executable:
    """A compiled program, written to a file, and what is said of it to another."""
    made = Executable(path, way, values)
    files.write_atomically(
        path, lambda file: pickle.dump(serialize_executable.serialize(compiled), file)
    )
    files.write_atomically(_said(path), lambda file: pickle.dump(made, file))
    return made


def known(path: Path) -> Executable | None:
    """A compiled program that was written before, if it was."""
    if not _said(path).exists():
        return None
    return pickle.loads(_said(path).read_bytes())._replace(path=path)


def _said(path: Path) -> Path:
    return path.with_suffix(path.suffix + ".said")


def run(name: str, programs: Mapping[str, Executable], blocks: int) -> dict[tuple[str, str], float]:
    """{(method, metric): value} of a program's executables, run in turns; for a fresh process.

    ``peak_bytes`` is what the allocator's peak rises by above what is in use before the call,
    where there is such a number. Those with the fewest bytes run first, since that peak is never
    forgotten: a program that needs less than one before it has that one's.
    """
    os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", MEMORY)
    loaded = {
        method: serialize_executable.deserialize_and_load(*pickle.loads(one.path.read_bytes()))
        for method, one in programs.items()
    }
    found, results = dict[tuple[str, str], float](), {}
    one = jax_train_steps.program(name)
    args = jax.block_until_ready(one.arguments())
    for method in sorted(loaded, key=lambda method: programs[method].values["total_bytes"]):
        given = _copies(one, args, 1)[0]
        before = _memory("bytes_in_use")
        try:
            results[method] = jax.device_get(loaded[method](*given))
        except jax.errors.JaxRuntimeError as error:
            if not is_full(error):
                raise
        found[method, "ran"] = float(method in results)
        if before is not None and method in results:
            found[method, "peak_bytes"] = (_memory("peak_bytes_in_use") or 0.0) - before
    for method in results.keys() - {PLAIN}:
        if PLAIN in results:
            both = results[PLAIN], results[method]
            found[method, "equal"] = float(side_by_side.same_bits(*both))
            found[method, "difference"] = side_by_side.largest_difference(*both)
    return found | _timed(one, args, {method: loaded[method] for method in results}, blocks)


def _timed(
    one: jax_train_steps.Program, args: tuple, programs: Mapping[str, Any], blocks: int
) -> dict[tuple[str, str], float]:
    """Medians of seconds of a call, and over the plain program's, block by block."""
    calls = {method: _calls(one, args, program) for method, program in programs.items()}
    seconds: dict[str, list[float]] = {method: [] for method in programs}
    for _ in range(blocks):
        for method, program in programs.items():
            seconds[method].append(_block(one, args, program, calls[method]))
    found = {(method, "run_seconds"): statistics.median(of) for method, of in seconds.items() if of}
    for method in programs.keys() - {PLAIN}:
        ratios = [b / a for a, b in zip(seconds.get(PLAIN, ()), seconds[method], strict=False)]
        if ratios:
            found[method, "run_ratio"] = statistics.median(ratios)
            found[method, "run_ratio_least"] = min(ratios)
            found[method, "run_ratio_most"] = max(ratios)
    return found


def _calls(one: jax_train_steps.Program, args: tuple, program: Any) -> int:
    """How many calls a block has."""
    _block(one, args, program, 2)
    return max(1, min(MOST_CALLS, math.ceil(BLOCK_SECONDS / _block(one, args, program, 2))))


def _block(one: jax_train_steps.Program, args: tuple, program: Any, calls: int) -> float:
    """Seconds of a call among so many, one behind another."""
    return seconds_a_call(program, [(given, {}) for given in _copies(one, args, calls)])


def _copies(one: jax_train_steps.Program, args: tuple, number: int) -> list[tuple]:
    """The arguments of so many calls: where some are donated, new ones for each."""
    if not one.donated:
        return [args] * number
    copies = [jax.tree.map(lambda x: x.copy(), args) for _ in range(number)]
    return jax.block_until_ready(copies)


def _memory(key: str) -> float | None:
    """A number of the device's allocator; None where it has none, as CPUs'."""
    stats = jax.local_devices()[0].memory_stats()
    return None if stats is None else float(stats[key])

"""Programs run on the device that is here, as XLA compiles them and as ``rj.jit`` does.

First all are compiled, by workers, and their executables kept; then each program runs in a process
of its own, alone on the device. What the compiler said of bytes is held against the allocator's
peak, and estimated times against measured ones.
"""

import math
import os
import pickle
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jax.experimental import serialize_executable

from regal_jax.compiler.accelerators.accelerator import target_of
from regal_jax.compiler.accelerators.measure import measured
from regal_jax.compiler.routes import compile_best
from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.compiler.xla.settings import Options, Search
from regal_jax.datasets import jax_train_steps
from regal_jax.options import byte_count
from regal_jax.reporting import progress
from regal_jax.reporting.results import Row
from regal_jax.reporting.tables import human_bytes
from regal_jax.studies import executors, keys
from regal_jax.studies.compiler import side_by_side
from regal_jax.studies.compiler.accelerator_memory import mean
from regal_jax.studies.flags import option
from regal_jax.studies.kept import KEY, KeptRows
from regal_jax.studies.settings import Output

OURS = "regal_jax"
BLOCK_SECONDS = 0.05
"""Of calls that are timed together: most is the device's time then, not the host's."""
MOST_CALLS = 100
"""Of one block."""

EXTRA_COLUMNS = (KEY, "device", "jax", "segments")
_LAST_METRIC = "compile_seconds"


@dataclass(frozen=True, kw_only=True)
class Settings(Output):
    """Which programs run, and how."""

    programs: tuple[str, ...] = option(
        ("unet/training*8",), "family/mode, *N of N times the batch, @BYTES in a memory budget."
    )
    orders: str = option("", "Folder of decisions, kept for other runs; those of rj.jit(cache=).")
    top_k: int = option(4, "Ways that are compiled where no decision is kept.")
    seed: int = option(0, "Of the search.")
    blocks: int = option(15, "Timings of each program, in turns; of as many calls as a block has.")
    executor: str = option("processes:1", f"Where programs are compiled: {executors.KINDS}.")


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


def measure(settings: Settings, folder: Path) -> list[Row]:
    """Rows of every program, appended to ``folder/results.csv``; those that are there, of the same
    program, settings, JAX and device, are not made again.

    Raises OptionError for a name that no program has, at once; RegalError for workers that die.
    """
    for name in settings.programs:
        jax_train_steps.check_name(name.partition("@")[0])
    kept = KeptRows(folder / "results.csv", _LAST_METRIC, EXTRA_COLUMNS)
    machine = side_by_side.in_process(keys.machine)  # the driver leaves the device alone
    key_of = {name: _key(name, settings, machine) for name in settings.programs}
    missing = [name for name in settings.programs if key_of[name] not in kept]
    with tempfile.TemporaryDirectory(dir=folder) as programs:
        tasks = [(name, settings, Path(programs) / str(n)) for n, name in enumerate(missing)]
        made: dict[str, dict[str, Executable]] = {}
        with progress.bar("compiling", len(tasks)) as update:
            for number, found in executors.completed(settings.executor, executables, tasks):
                made[missing[number]] = found
                update(len(made), missing[number])
        for name in progress.each("running", missing):
            ran = side_by_side.in_process(run, name.partition("@")[0], made[name], settings.blocks)
            common = {"graph": name, "seed": settings.seed, "device": machine["device"]}
            common |= {"jax": machine["jax"]}
            kept.add(key_of[name], _rows(common, made[name], ran))
    return [row for name in settings.programs for row in kept[key_of[name]]]


def executables(name: str, settings: Settings, path: Path) -> dict[str, Executable]:
    """Compiles a program as XLA does and as ``rj.jit`` does; for a worker.

    Several workers share a device, so that it isn't taken whole by the first.
    """
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    name, _, budget = name.partition("@")
    one = jax_train_steps.program(name)
    traced = one.jitted().trace(*one.shapes)
    lowered = traced.lower()
    begin = time.perf_counter()
    plain = lowered.compile()
    spent = time.perf_counter() - begin
    options = Options(
        Search(seed=settings.seed),
        settings.top_k,
        Path(settings.orders) if settings.orders else None,
        memory_budget=byte_count(budget) if budget else None,
    )
    best, report = compile_best(traced, lowered, options)
    target = target_of(lowered)
    found = {}
    for method, compiled, way, seconds in (
        (PLAIN, plain, PLAIN, spent),
        (OURS, best, report.chosen, report.compile_seconds + report.search_seconds),
    ):
        file = path.with_suffix(f".{method}")
        file.write_bytes(pickle.dumps(serialize_executable.serialize(compiled)))
        values = _said(compiled, target) | {_LAST_METRIC: seconds}
        found[method] = Executable(file, way, values)
    return found


def _said(compiled: Any, target: Any) -> dict[str, float]:
    """What the compiler says of a program, and on accelerators what is estimated."""
    memory = compiled.memory_analysis()
    beyond = memory.temp_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes
    found = {"total_bytes": float(beyond), "argument_bytes": float(memory.argument_size_in_bytes)}
    if target is None:
        return found
    costs = measured(compiled, target)
    return found | {
        "kernels": float(costs.kernels),
        "estimated_seconds": costs.seconds,
        "flops": costs.flops,
    }


def run(name: str, programs: Mapping[str, Executable], blocks: int) -> dict[tuple[str, str], float]:
    """{(method, metric): value} of a program's executables, run in turns; for a fresh process.

    ``peak_bytes`` is what the allocator's peak rises by above what is in use before the call,
    where there is such a number. Those with the fewest bytes run first, since that peak is never
    forgotten: a program that needs less than one before it has that one's.
    """
    loaded = {
        method: serialize_executable.deserialize_and_load(*pickle.loads(one.path.read_bytes()))
        for method, one in programs.items()
    }
    one, found = jax_train_steps.program(name), dict[tuple[str, str], float]()
    order = sorted(loaded, key=lambda method: programs[method].values["total_bytes"])
    results = {}
    for method in order:
        args = jax.block_until_ready(one.arguments())
        before = _memory("bytes_in_use")
        try:
            results[method] = jax.device_get(loaded[method](*args))
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
        found[method, "ran"] = float(method in results)
        if before is not None and method in results:
            found[method, "peak_bytes"] = (_memory("peak_bytes_in_use") or 0.0) - before
    if PLAIN in results and OURS in results:
        both = results[PLAIN], results[OURS]
        found[OURS, "equal"] = float(side_by_side.same_bits(*both))
        found[OURS, "difference"] = side_by_side.largest_difference(*both)
    ran = {method: loaded[method] for method in results}
    return found | _timed(one, ran, blocks)


def _timed(
    one: jax_train_steps.Program, programs: Mapping[str, Any], blocks: int
) -> dict[tuple[str, str], float]:
    """Medians of seconds of a call, and of ours over the plain program's, block by block."""
    calls = {method: _calls(one, program) for method, program in programs.items()}
    seconds: dict[str, list[float]] = {method: [] for method in programs}
    for _ in range(blocks):
        for method, program in programs.items():
            seconds[method].append(_block(one, program, calls[method]))
    found = {(method, "run_seconds"): statistics.median(of) for method, of in seconds.items() if of}
    if len(programs) > 1 and blocks:
        ratios = [b / a for a, b in zip(seconds[PLAIN], seconds[OURS], strict=True)]
        found[OURS, "run_ratio"] = statistics.median(ratios)
        found |= {(OURS, "run_ratio_least"): min(ratios), (OURS, "run_ratio_most"): max(ratios)}
    return found


def _calls(one: jax_train_steps.Program, program: Any) -> int:
    """How many calls a block has."""
    _block(one, program, 2)
    return max(1, min(MOST_CALLS, math.ceil(BLOCK_SECONDS / _block(one, program, 2))))


def _block(one: jax_train_steps.Program, program: Any, calls: int) -> float:
    """Seconds of a call among so many, one behind another; donated arguments are new each time."""
    shared = one.arguments()
    each = [one.arguments() for _ in range(calls)] if one.donated else [shared] * calls
    jax.block_until_ready(each)
    begin = time.perf_counter()
    for args in each:
        result = program(*args)
    jax.block_until_ready(result)
    return (time.perf_counter() - begin) / calls


def _memory(key: str) -> float | None:
    """A number of the device's allocator; None where it has none, as CPUs'."""
    stats = jax.local_devices()[0].memory_stats()
    return None if stats is None else float(stats[key])


def _key(name: str, settings: Settings, machine: Mapping[str, Any]) -> str:
    one = jax_train_steps.program(name.partition("@")[0])
    return keys.key(
        name=name,
        program=one.jitted().lower(*one.shapes).as_text(),
        settings=[settings.top_k, settings.seed, settings.blocks],
        machine=machine,
    )


def _rows(
    common: Row, programs: Mapping[str, Executable], ran: Mapping[tuple[str, str], float]
) -> list[Row]:
    """What the compiler says last, since rows with it are whole."""
    said = {
        (method, metric): value
        for method, one in programs.items()
        for metric, value in one.values.items()
    }
    return [
        common
        | {"method": method, "metric": metric, "value": value, "segments": programs[method].way}
        for (method, metric), value in (dict(ran) | said).items()
    ]


def table(rows: Sequence[Row]) -> list[dict[str, str]]:
    """A line a program: bytes beyond the arguments and milliseconds, by XLA's choice and ours."""
    return [_line(name, of) for name, of in _by_program(rows).items()]


def _line(name: str, of: Mapping[tuple[str, str], float]) -> dict[str, str]:
    line = {"program": name}
    for label, method in (("XLA", PLAIN), ("ours", OURS)):
        line[f"{label}, compiled"] = human_bytes(of[method, "total_bytes"])
        peak = of.get((method, "peak_bytes"))
        line[f"{label}, in use"] = human_bytes(peak) if peak else ""
        seconds = of.get((method, "run_seconds"))
        line[f"{label}, ms"] = f"{1e3 * seconds:.3g}" if seconds else "doesn't fit"
    for label, ratio in ratios(of).items():
        line[label] = "" if ratio is None else f"{ratio:.3f}"
    line["difference"] = f"{of[OURS, 'difference']:.1g}" if (OURS, "difference") in of else ""
    return line


def ratios(of: Mapping[tuple[str, str], float]) -> dict[str, float | None]:
    """Ours over XLA's own choice, of one program: bytes as compiled and in use, and time; estimates
    of it, too. None for what there isn't."""

    def ratio(metric: str) -> float | None:
        both = of.get((OURS, metric)), of.get((PLAIN, metric))
        return both[0] / both[1] if both[0] and both[1] else None

    return {
        "bytes": ratio("total_bytes"),
        "bytes in use": ratio("peak_bytes"),
        "time": of.get((OURS, "run_ratio")),
        "estimated": ratio("estimated_seconds"),
    }


def summary(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Geometric means over programs, 95 % intervals (from ten on) and ranges: without a budget, and
    within one."""
    found = {name: ratios(of) for name, of in _by_program(rows).items()}
    lines = []
    for label, is_in in (("no budget", False), ("in a budget", True)):
        own = {name: of for name, of in found.items() if ("@" in name) == is_in}
        if not own:
            continue
        line = {"programs": label, "number": str(len(own))}
        for metric in ("bytes", "bytes in use", "time", "estimated"):
            known = {name: one for name, of in own.items() if (one := of[metric]) is not None}
            line[metric] = mean(known) if known else ""
        lines.append(line)
    return lines


def _by_program(rows: Sequence[Row]) -> dict[str, dict[tuple[str, str], float]]:
    found: dict[str, dict[tuple[str, str], float]] = {}
    for row in rows:
        of = found.setdefault(str(row["graph"]), {})
        of[str(row["method"]), str(row["metric"])] = float(row["value"])
    return found

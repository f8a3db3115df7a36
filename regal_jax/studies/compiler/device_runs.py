"""Programs run on the device that is here, as XLA compiles them and as ``rj.jit`` does.

First all are compiled, by workers, and their executables kept; then each program runs in a process
of its own, alone on the device. What the compiler said of bytes is held against the allocator's
peak, and estimated times against measured ones.
"""

import functools
import math
import os
import pickle
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jax.experimental import serialize_executable

from regal_jax.compiler.accelerators.accelerator import Accelerator, accelerator, target_of
from regal_jax.compiler.accelerators.measure import compile_for, measured, placed
from regal_jax.compiler.routes import compile_best
from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.compiler.xla.settings import Options, Search
from regal_jax.datasets import jax_train_steps
from regal_jax.errors import OptionError
from regal_jax.options import byte_count
from regal_jax.reporting import progress
from regal_jax.reporting.results import Row
from regal_jax.reporting.tables import human_bytes
from regal_jax.studies import executors, keys
from regal_jax.studies.compiler import side_by_side
from regal_jax.studies.compiler.accelerator_memory import IN_TIME, OURS, mean
from regal_jax.studies.flags import option
from regal_jax.studies.kept import KEY, KeptRows
from regal_jax.studies.settings import Output

BLOCK_SECONDS = 0.05
"""Of calls that are timed together: most is the device's time then, not the host's."""
MOST_CALLS = 100
"""Of one block."""

EXTRA_COLUMNS = (KEY, "device", "jax", "segments")
_LAST_METRIC = "compile_seconds"
EXPECTED_BYTES, EXPECTED_SECONDS = "expected_bytes", "expected_seconds"
"""Where the device wasn't there."""


@dataclass(frozen=True, kw_only=True)
class Settings(Output):
    """Which programs run, and how."""

    programs: tuple[str, ...] = option(
        ("unet/training*8",), "family/mode, *N of N times the batch, @BYTES in a memory budget."
    )
    orders: str = option("", "Folder of decisions, kept for other runs; those of rj.jit(cache=).")
    accelerator: str = option("", "Decide for it, with no device, and run nothing: h200, ...")
    top_k: int = option(4, "Ways that are compiled where no decision is kept.")
    seed: int = option(0, "Of the search.")
    overlap: bool = option(False, "Whether rj.jit(overlap=True) runs, too.")
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


def decide(settings: Settings, folder: Path) -> Iterator[str]:
    """Decides for devices that aren't there; a line for people on each program.

    What the compiler says there, and the estimate of time, are rows of ``folder/decided.csv``.
    Raises OptionError without a folder to keep decisions in, or for a name that is none.
    """
    if not settings.orders:
        raise OptionError("orders: without a folder, decisions aren't kept")
    target = accelerator(settings.accelerator)
    kept = KeptRows(folder / "decided.csv", EXPECTED_SECONDS, EXTRA_COLUMNS)
    for name in settings.programs:
        one = jax_train_steps.program(name.partition("@")[0])
        args, _ = placed(target, one.shapes, {})
        traced = one.jitted().trace(*args)
        lowered = traced.lower()
        common = {"graph": name, "seed": settings.seed, "device": target.name}
        common |= {"jax": jax.__version__}
        rows = _expected(common, PLAIN, PLAIN, compile_for(lowered, target), target)
        for method in _methods(settings):
            compiled, report = compile_best(traced, lowered, _options(name, settings, method))
            rows += _expected(common, method, report.chosen, compiled, target)
            yield f"{name}: {report}"
        kept.rows(_key(name, settings, {"accelerator": target.name}), functools.partial(list, rows))


def _expected(common: Row, method: str, way: str, compiled: Any, target: Accelerator) -> list[Row]:
    needs = measured(compiled, target)
    values = {EXPECTED_BYTES: float(needs.beyond_arguments), EXPECTED_SECONDS: needs.seconds}
    common = common | {"method": method, "segments": way}
    return [common | {"metric": metric, "value": value} for metric, value in values.items()]


def executables(name: str, settings: Settings, path: Path) -> dict[str, Executable]:
    """Compiles a program as XLA does and as ``rj.jit`` does, by method; for a worker.

    Several workers share a device: none keeps what it doesn't need just now. What comes out of
    JAX's cache of compiled programs can't be written to a file again.
    """
    jax.config.update("jax_enable_compilation_cache", False)
    os.environ.setdefault("XLA_PYTHON_CLIENT_ALLOCATOR", "platform")
    one = jax_train_steps.program(name.partition("@")[0])
    traced = one.jitted().trace(*one.shapes)
    lowered = traced.lower()
    found = {}
    for number, method in enumerate((PLAIN, *_methods(settings))):
        begin, way = time.perf_counter(), PLAIN
        if method == PLAIN:
            compiled = lowered.compile()
        else:
            compiled, report = compile_best(traced, lowered, _options(name, settings, method))
            way = report.chosen
        values = {_LAST_METRIC: time.perf_counter() - begin}
        file = path.with_suffix(f".{number}")
        file.write_bytes(pickle.dumps(serialize_executable.serialize(compiled)))
        found[method] = Executable(file, way, _said(compiled, target_of(lowered)) | values)
    return found


def _methods(settings: Settings) -> Sequence[str]:
    """Ours."""
    return (OURS, IN_TIME) if settings.overlap else (OURS,)


def _options(name: str, settings: Settings, method: str) -> Options:
    """Those of ``rj.jit``."""
    _, _, budget = name.partition("@")
    return Options(
        Search(seed=settings.seed),
        settings.top_k,
        Path(settings.orders) if settings.orders else None,
        method == IN_TIME,
        byte_count(budget) if budget else None,
    )


def _said(compiled: Any, target: Any) -> dict[str, float]:
    """What the compiler says of a program."""
    memory = compiled.memory_analysis()
    beyond = memory.temp_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes
    found = {"total_bytes": float(beyond), "argument_bytes": float(memory.argument_size_in_bytes)}
    if target is None:
        return found
    return found | {"kernels": float(measured(compiled, target).kernels)}


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
    found, results = dict[tuple[str, str], float](), {}
    one = jax_train_steps.program(name)
    args = jax.block_until_ready(one.arguments())
    for method in sorted(loaded, key=lambda method: programs[method].values["total_bytes"]):
        given = _copies(one, args, 1)[0]
        before = _memory("bytes_in_use")
        try:
            results[method] = jax.device_get(loaded[method](*given))
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
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
    each = _copies(one, args, calls)
    begin = time.perf_counter()
    for given in each:
        result = program(*given)
    jax.block_until_ready(result)
    return (time.perf_counter() - begin) / calls


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
    """A line a program: bytes in use beyond the arguments, and milliseconds, by XLA's choice and
    ours; ours over XLA's, and what is as fast over XLA's where that ran, too."""
    by_program = _by_program(rows)
    faster = any(method == IN_TIME for of in by_program.values() for method, _ in of)
    return [_line(name, of) | (_in_time(of) if faster else {}) for name, of in by_program.items()]


def _line(name: str, of: Mapping[tuple[str, str], float]) -> dict[str, str]:
    line = {"program": name}
    for label, method in (("XLA", PLAIN), ("ours", OURS)):
        peak, seconds = of.get((method, "peak_bytes")), of.get((method, "run_seconds"))
        line[label] = human_bytes(peak) if peak else ""
        line[f"{label}, ms"] = f"{1e3 * seconds:.3g}" if seconds else "doesn't fit"
    line |= {label: _ratio(found) for label, found in ratios(of, OURS).items()}
    line["difference"] = f"{of[OURS, 'difference']:.1g}" if (OURS, "difference") in of else ""
    return line


def _in_time(of: Mapping[tuple[str, str], float]) -> dict[str, str]:
    found = ratios(of, IN_TIME)
    return {f"in time: {label}": _ratio(found[label]) for label in ("in use", "time")}


def _ratio(found: float | None) -> str:
    return "" if found is None else f"{found:.3f}"


def ratios(of: Mapping[tuple[str, str], float], method: str) -> dict[str, float | None]:
    """A method's over XLA's own choice, of one program: bytes as compiled and in use, and time, and
    what was expected of them without the device. None for what there isn't."""

    def ratio(metric: str) -> float | None:
        both = of.get((method, metric)), of.get((PLAIN, metric))
        return both[0] / both[1] if both[0] and both[1] else None

    return {
        "bytes": ratio("total_bytes"),
        "in use": ratio("peak_bytes"),
        "time": of.get((method, "run_ratio")),
        "bytes expected": ratio(EXPECTED_BYTES),
        "time expected": ratio(EXPECTED_SECONDS),
    }


def summary(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Geometric means over programs, 95 % intervals (from ten on) and ranges: without a budget,
    within one, and with overlap."""
    found, lines = _by_program(rows), []
    for label, method, is_in in (
        ("ours", OURS, False),
        ("in a budget", OURS, True),
        ("in time", IN_TIME, False),
    ):
        own = {
            name: ratios(of, method)
            for name, of in found.items()
            if ("@" in name) == is_in and (method, "total_bytes") in of
        }
        if not own:
            continue
        line = {"programs": label, "number": str(len(own))}
        for metric in ratios({}, method):
            known = {name: one for name, of in own.items() if (one := of[metric]) is not None}
            line[metric] = mean(known) if known else ""
        lines.append(line)
    return lines


def sentence(rows: Sequence[Row]) -> str:
    """What ``summary`` says without a budget, for people."""
    line = next(line for line in summary(rows) if line["programs"] == "ours")
    size, time = (line[metric].split(" (")[0] for metric in ("in use", "time"))
    where, count = devices(rows)[0], line["number"]
    return (
        f"On one {where}, {count} train steps ran in {size} of XLA's bytes, {time} of its time.\n"
    )


def devices(rows: Sequence[Row]) -> list[str]:
    """Those that programs ran on."""
    return list(dict.fromkeys(str(row["device"]) for row in rows if row["metric"] == "ran"))


def _by_program(rows: Sequence[Row]) -> dict[str, dict[tuple[str, str], float]]:
    found: dict[str, dict[tuple[str, str], float]] = {}
    for row in rows:
        of = found.setdefault(str(row["graph"]), {})
        of[str(row["method"]), str(row["metric"])] = float(row["value"])
    return found

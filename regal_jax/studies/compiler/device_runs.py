"""Programs run on the device that is here, as XLA compiles them and as ``rj.jit`` does.

Some at a time are compiled, by workers, and their executables kept; then each program runs in a
process of its own, alone on the device (``executable``), and its rows are written.
"""

import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from regal_jax.compiler.accelerators.accelerator import Accelerator, accelerator, target_of
from regal_jax.compiler.accelerators.measure import compile_for, measured, placed
from regal_jax.compiler.accelerators.timing import is_full
from regal_jax.compiler.routes import compile_best
from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.compiler.xla.reschedule import memory_of
from regal_jax.compiler.xla.settings import Options, Search
from regal_jax.datasets import jax_train_steps
from regal_jax.errors import CompilerError, LimitError, OptionError
from regal_jax.options import byte_count
from regal_jax.reporting import progress
from regal_jax.reporting.results import Row
from regal_jax.studies import executors, keys
from regal_jax.studies.compiler import checkpointed, executable, side_by_side
from regal_jax.studies.compiler.accelerator_memory import IN_TIME, OURS
from regal_jax.studies.compiler.device_tables import EXPECTED_BYTES, EXPECTED_SECONDS
from regal_jax.studies.flags import check_names, option
from regal_jax.studies.kept import KEY, KeptRows
from regal_jax.studies.settings import Output

EXTRA_COLUMNS = (KEY, "device", "jax", "segments")
_LAST_METRIC = "compile_seconds"
_AT_ONCE = 8
"""Programs that are compiled before they run: a run that is stopped keeps those before."""


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
    checkpointed: tuple[str, ...] = option(
        (), f"Uses of jax.checkpoint that run, too: of {', '.join(checkpointed.METHODS)}."
    )
    blocks: int = option(15, "Timings of each program, in turns; of as many calls as a block has.")
    executor: str = option("processes:1", f"Where programs are compiled: {executors.KINDS}.")


def measure(settings: Settings, folder: Path) -> list[Row]:
    """Rows of every program, appended to ``folder/results.csv``; those that are there, of the same
    program, settings, JAX and device, are not made again.

    Raises OptionError for a name that no program has, at once; RegalError for workers that die.
    """
    check_names("checkpointed", settings.checkpointed, checkpointed.METHODS)
    for name in settings.programs:
        jax_train_steps.check_name(_parts(name)[0])
    kept = KeptRows(folder / "results.csv", _LAST_METRIC, EXTRA_COLUMNS)
    machine = side_by_side.in_process(keys.machine)  # the driver leaves the device alone
    key_of = {name: _key(name, settings, machine) for name in settings.programs}
    missing = [name for name in settings.programs if key_of[name] not in kept]
    programs = folder / "programs"  # compiled; those of a stopped run needn't be again
    programs.mkdir(exist_ok=True)
    with progress.bar("compiling and running", len(missing)) as update:
        for start in range(0, len(missing), _AT_ONCE):
            some = missing[start : start + _AT_ONCE]
            tasks = [(name, settings, programs / key_of[name]) for name in some]
            made = dict(executors.completed(settings.executor, executables, tasks))
            for number, name in enumerate(some):
                if made[number]:
                    kept.add(key_of[name], _run(name, settings, made[number], machine))
                update(start + number + 1, name)
    shutil.rmtree(programs)
    done = [name for name in settings.programs if key_of[name] in kept]
    return [row for name in done for row in kept[key_of[name]]]


def _run(
    name: str,
    settings: Settings,
    made: Mapping[str, executable.Executable],
    machine: Mapping[str, Any],
) -> list[Row]:
    """The rows of a program that is compiled."""
    ran = side_by_side.in_process(executable.run, _parts(name)[0], made, settings.blocks)
    common = {"graph": name, "seed": settings.seed, "device": machine["device"]}
    return _rows(common | {"jax": machine["jax"]}, made, ran)


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
        one = jax_train_steps.program(_parts(name)[0])
        args, _ = placed(target, one.shapes, {})
        traced = one.jitted().trace(*args)
        lowered = traced.lower()
        common = {"graph": name, "seed": settings.seed, "device": target.name}
        common |= {"jax": jax.__version__}
        rows = _expected(common, PLAIN, PLAIN, compile_for(lowered, target), target)
        for method in _ours(settings):
            try:
                compiled, report = compile_best(traced, lowered, _options(name, settings, method))
            except (CompilerError, LimitError) as error:
                yield f"{name}: {error}"
                continue
            rows += _expected(common, method, report.chosen, compiled, target)
            yield f"{name}: {report}"
        key = _key(name, settings, {"accelerator": target.name})
        if key not in kept:
            kept.add(key, rows)


def _expected(common: Row, method: str, way: str, compiled: Any, target: Accelerator) -> list[Row]:
    needs = measured(compiled, target)
    values = {EXPECTED_BYTES: float(needs.beyond_arguments), EXPECTED_SECONDS: needs.seconds}
    common = common | {"method": method, "segments": way}
    return [common | {"metric": metric, "value": value} for metric, value in values.items()]


def executables(name: str, settings: Settings, path: Path) -> dict[str, executable.Executable]:
    """Compiles a program in all ways, by method; for a worker. Those that the device has no room to
    compile, or that nothing was found for, are left out.

    Several workers share a device: none keeps what it doesn't need just now. What comes out of
    JAX's cache of compiled programs can't be written to a file again.
    """
    jax.config.update("jax_enable_compilation_cache", False)
    os.environ.setdefault("XLA_PYTHON_CLIENT_ALLOCATOR", "platform")
    found = {}
    for number, (method, one) in enumerate(_ways(name, settings).items()):
        file, begin = path.with_suffix(f".{number}"), time.perf_counter()
        if (made := executable.known(file)) is not None:
            found[method] = made
            continue
        try:
            compiled, way, target = _compile(name, settings, method, one)
        except (jax.errors.JaxRuntimeError, CompilerError, LimitError) as error:
            if isinstance(error, jax.errors.JaxRuntimeError) and not is_full(error):
                raise
            print(f"{name}: {method}: {error}", file=sys.stderr)
            continue
        values = _said(compiled, target) | {_LAST_METRIC: time.perf_counter() - begin}
        found[method] = executable.write(compiled, file, way, values)
    return found


def _ways(name: str, settings: Settings) -> dict[str, jax_train_steps.Program]:
    """What is compiled of a program, by method: by XLA, by ``rj.jit``, and with checkpoints."""
    program, _ = _parts(name)
    found = dict.fromkeys((PLAIN, *_ours(settings)), jax_train_steps.program(program))
    of = {method: checkpointed.program(program, method) for method in settings.checkpointed}
    return found | {method: one for method, one in of.items() if one is not None}


def _compile(
    name: str, settings: Settings, method: str, one: jax_train_steps.Program
) -> tuple[Any, str, Accelerator | None]:
    """A compiled program, the name of the way, and what it is for."""
    traced = one.jitted().trace(*one.shapes)
    lowered = traced.lower()
    if method not in _ours(settings):
        return lowered.compile(), method, target_of(lowered)
    compiled, report = compile_best(traced, lowered, _options(name, settings, method))
    return compiled, report.chosen, target_of(lowered)


def _ours(settings: Settings) -> Sequence[str]:
    return (OURS, IN_TIME) if settings.overlap else (OURS,)


def _options(name: str, settings: Settings, method: str) -> Options:
    """Those of ``rj.jit``."""
    return Options(
        Search(seed=settings.seed),
        settings.top_k,
        Path(settings.orders) if settings.orders else None,
        overlap=method == IN_TIME,
        memory_budget=_parts(name)[1],
    )


def _parts(name: str) -> tuple[str, int | None]:
    """The name of a program, and its memory budget, bytes."""
    program, _, budget = name.partition("@")
    return program, byte_count(budget) if budget else None


def _said(compiled: Any, target: Accelerator | None) -> dict[str, float]:
    """What the compiler says of a program."""
    arguments = compiled.memory_analysis().argument_size_in_bytes
    found = {"total_bytes": memory_of(compiled).total, "argument_bytes": arguments}
    if target is not None:
        found["kernels"] = measured(compiled, target).kernels
    return {metric: float(value) for metric, value in found.items()}


def _key(name: str, settings: Settings, machine: Mapping[str, Any]) -> str:
    one = jax_train_steps.program(_parts(name)[0])
    methods = [PLAIN, *_ours(settings), *settings.checkpointed]
    return keys.key(
        name=name,
        program=one.jitted().lower(*one.shapes).as_text(),
        settings=[settings.top_k, settings.seed, settings.blocks, methods],
        time_price=Options().time_price,
        machine=machine,
    )


def _rows(
    common: Row, programs: Mapping[str, executable.Executable], ran: Mapping[tuple[str, str], float]
) -> list[Row]:
    """Times of compilation last, since rows with them are whole."""
    said = {
        (method, metric): value
        for method, one in programs.items()
        for metric, value in one.values.items()
    }
    values = dict(ran) | said
    return [
        common
        | {"method": method, "segments": programs[method].way}
        | {"metric": metric, "value": values[method, metric]}
        for method, metric in sorted(values, key=lambda one: one[1] == _LAST_METRIC)
    ]

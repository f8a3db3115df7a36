"""XLA's own choice against ours on accelerators, by their compilers: bytes and estimated time."""

import functools
import itertools
import math
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from regal_jax.compiler.accelerators.accelerator import Accelerator
from regal_jax.compiler.accelerators.measure import Measurement, measured
from regal_jax.compiler.ways.attempts import Attempts, each_of
from regal_jax.compiler.ways.judge import Attempt, judge_of
from regal_jax.compiler.ways.trade import Trade, best_trade
from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.compiler.xla.settings import Search
from regal_jax.datasets.jax_train_steps import Program, check_name, program
from regal_jax.reporting import progress
from regal_jax.reporting.results import Row
from regal_jax.reporting.statistics import mean_interval
from regal_jax.reporting.tables import human_bytes
from regal_jax.studies import keys
from regal_jax.studies.compiler.sharded import SHARDINGS, sharded
from regal_jax.studies.flags import check_names
from regal_jax.studies.kept import KEY, KeptRows

OURS = "regal_jax"
IN_TIME = "regal_jax overlap"
"""The same where time counts: at most 2 % more than XLA's, by estimate."""

EXTRA_COLUMNS = (KEY, "accelerator", "jax", "compilations", "evaluations", "segments")
_LAST_METRIC = "time_ratio"


def measure(
    names: Sequence[str],
    target: Accelerator,
    *,
    shardings: Sequence[str] = ("whole",),
    compilations: int,
    evaluations: int,
    seed: int,
    path: Path,
) -> list[Row]:
    """Rows of every program, appended to ``path``; those that are there are not made again.

    Raises OptionError for a name that no program has, at once.
    """
    check_names("shardings", shardings, SHARDINGS)
    for name in names:
        check_name(name)
    kept, rows = KeptRows(path, _LAST_METRIC, EXTRA_COLUMNS), []
    for name, how in progress.each("programs", list(itertools.product(names, shardings))):
        one = sharded(program(name), how, target)
        traced = one.jitted().trace(*one.shapes)
        key = keys.key(
            name=one.name,
            program=traced.lower().as_text(),
            accelerator=target.name,
            settings=[compilations, evaluations, seed],
            jax=jax.__version__,
        )
        make = functools.partial(_rows, one, traced, target, compilations, evaluations, seed)
        rows += kept.rows(key, make)
    return rows


def table(rows: Sequence[Row]) -> list[dict[str, str]]:
    """A line a program: bytes beyond the arguments and estimated time, over XLA's."""
    lines = []
    for name, of in by_program(rows).items():
        ways = {r["method"]: r["segments"] for r in rows if r["graph"] == name}
        line = {"program": name, "XLA": human_bytes(of[PLAIN, "total_bytes"])}
        line["ours"] = human_bytes(of[OURS, "total_bytes"])
        beside = of.get((PLAIN, "collectives"), 0) > 0
        if beside:
            line["XLA: beside work"] = _beside(of, PLAIN)
        for label, method in (("", OURS), ("in time: ", IN_TIME)):
            line[f"{label}bytes"] = f"{of[method, 'ratio']:.3f}"
            line[f"{label}time"] = f"{of[method, 'time_ratio']:.3f}"
            if beside:
                line[f"{label}beside work"] = _beside(of, method)
            line[f"{label}order/cuts"] = ways[method]
        lines.append(line)
    return lines


def by_program(rows: Sequence[Row]) -> dict[str, dict[tuple[str, str], float]]:
    """Values by method and metric, by program."""
    found: dict[str, dict[tuple[str, str], float]] = {}
    for row in rows:
        found.setdefault(row["graph"], {})[row["method"], row["metric"]] = float(row["value"])
    return found


def _beside(of: Mapping[tuple[str, str], float], method: str) -> str:
    """How many collectives have other work beside them, of how many."""
    return f"{of[method, 'overlapped']:.0f} of {of[method, 'collectives']:.0f}"


_SUMMARIZED = {
    "bytes": (OURS, "ratio"),
    "time": (OURS, "time_ratio"),
    "in time: bytes": (IN_TIME, "ratio"),
    "in time: time": (IN_TIME, "time_ratio"),
}


def summary(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Geometric means over programs by mode, their 95 % intervals (from ten on) and range."""
    modes = dict.fromkeys(_mode(row) for row in rows)
    return [_summary(group, rows) for group in ("all", *modes)]


def _mode(row: Row) -> str:
    """What a program does, and how it is sharded."""
    return re.sub(r"\*\d+", "", str(row["graph"]).split("/")[1])


def _summary(group: str, rows: Sequence[Row]) -> dict[str, str]:
    line = {"programs": group}
    for label, key in _SUMMARIZED.items():
        found = {
            row["graph"]: float(row["value"])
            for row in rows
            if (row["method"], row["metric"]) == key and group in ("all", _mode(row))
        }
        line["number"] = str(len(found))
        line[label] = mean(found)
    return line


def mean(ratios: Mapping[str, float]) -> str:
    """The geometric mean of ratios by program, its 95 % interval from ten on, and the range."""
    mean = mean_interval({name: [math.log(ratio)] for name, ratio in ratios.items()})
    least, most = min(ratios.values()), max(ratios.values())
    interval = f" [{math.exp(mean.low):.3f}, {math.exp(mean.high):.3f}]"
    known = "" if math.isnan(mean.low) else interval
    return f"{math.exp(mean.mean):.3f}{known} ({least:.2f} to {most:.2f})"


def _rows(
    one: Program, traced: Any, target: Accelerator, compilations: int, evaluations: int, seed: int
) -> list[Row]:
    how = each_of(Search(evaluations=evaluations, seed=seed))
    attempts = Attempts(judge_of(traced, target, None, slices=False), how)
    common = {"graph": one.name, "seed": seed, "accelerator": target.name, "jax": jax.__version__}
    common |= {"compilations": compilations, "evaluations": evaluations}
    found: dict[str, tuple[Attempt, float]] = {}
    for method, overlap in ((IN_TIME, True), (OURS, False)):
        begin = time.perf_counter()
        trade = Trade(target.specification.memory_bytes, overlap=overlap)
        best, *_ = best_trade(attempts, trade, compilations=compilations)
        spent = time.perf_counter() - begin
        found |= {PLAIN: (attempts.plain, spent), method: (best, spent)}
    plain = measured(attempts.plain.program, target)
    return [
        common | {"method": method, "metric": metric, "value": value, "segments": attempt.way.name}
        for method, (attempt, spent) in found.items()
        for metric, value in _values(measured(attempt.program, target), plain, spent).items()
    ]


def _values(needs: Measurement, plain: Measurement, spent: float) -> dict[str, float]:
    total = plain.beyond_arguments
    return {
        "temp_bytes": float(needs.temporaries),
        "total_bytes": float(needs.beyond_arguments),
        "argument_bytes": float(needs.arguments),
        "kernels": float(needs.kernels),
        "collectives": float(needs.collectives),
        "overlapped": float(needs.overlapped),
        "seconds": needs.seconds,
        "search_seconds": spent,
        "ratio": needs.beyond_arguments / total if total else 1.0,
        "time_ratio": needs.seconds / plain.seconds if plain.seconds else 1.0,
    }

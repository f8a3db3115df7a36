"""XLA's own orders of real programs against ours: bytes, time, and whether results are equal."""

import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
from scipy.stats import spearmanr

from regal_jax.compiler.xla.reschedule import DEFAULT, MEMORY, Report, compile_best
from regal_jax.compiler.xla.settings import METHODS, Options, Search
from regal_jax.datasets.jax_train_steps import check_name, program
from regal_jax.reporting import progress
from regal_jax.reporting.results import Row
from regal_jax.reporting.tables import human_bytes
from regal_jax.studies import keys
from regal_jax.studies.compiler import side_by_side
from regal_jax.studies.compiler.accelerator_memory import by_program, mean
from regal_jax.studies.compiler.sharded import SHARDINGS
from regal_jax.studies.flags import option
from regal_jax.studies.kept import KEY, KeptRows
from regal_jax.studies.settings import Output

OURS = "regal_jax"
EXTRA_COLUMNS = (KEY, "jax", "platform", "budget", "time_limit")
_LAST_METRIC = "ratio"


@dataclass(frozen=True, kw_only=True)
class Settings(Output):
    """Which programs, how their orders are searched for, and what is measured."""

    programs: tuple[str, ...] = option((), "family/mode; all, unless given.")
    methods: tuple[str, ...] = option(METHODS, "Methods of one device that orders are found by.")
    evaluations: int = option(Search().evaluations, "Of auto, on each computation.")
    time_limit: float | None = option(None, "Seconds of the search of a program.")
    top_k: int = option(2, "Orders of a program that are compiled.")
    seed: int = option(0, "Of the search.")
    accelerator: str = option("", "Compile for it, with no device: h100, v5e, ... (else on CPUs).")
    shardings: tuple[str, ...] = option(
        ("whole",),
        f"What each of the accelerator's devices holds: {', '.join(SHARDINGS)}.",
        least=1,
    )
    pairs: int = option(5, "Runs of every program in both orders; 0 runs none.")
    resident: bool = option(True, "Measure resident memory, in processes of their own (Linux).")

    def options(self, orders: Path) -> Options:
        """Those of ``rj.jit``; orders that were found are kept in a folder."""
        search = Search(self.methods, self.evaluations, self.time_limit, self.seed)
        return Options(search, self.top_k, orders)


def measure(
    names: Sequence[str],
    options: Options,
    *,
    pairs: int,
    resident: bool,
    path: Path,
) -> list[Row]:
    """Rows of every program, appended to ``path``; those that are there, of the same program,
    options, JAX and platform, are not made again.

    ``pairs``: runs of each program, 0 for none; ``resident``: whether to measure resident memory,
    in a process for each run. Raises OptionError for a name that no program has, at once.
    """
    for name in names:
        check_name(name)
    kept, rows = KeptRows(path, _LAST_METRIC, EXTRA_COLUMNS), []
    for name in progress.each("programs", names):
        lowered = _lowered(name)
        key = keys.key(
            name=name,
            program=lowered.as_text(),
            options=options._replace(cache=None),
            pairs=pairs,
            resident=resident,
            machine=keys.machine(),
        )
        make = functools.partial(_rows, name, lowered, options, pairs, resident)
        rows += kept.rows(key, make)
    return rows


def table(rows: Sequence[Row]) -> list[dict[str, str]]:
    """A line a program: temporaries by XLA's orders and ours; ours, alone and with results, over
    XLA's better order; time and resident memory."""
    lines = []
    for name, of in by_program(rows).items():
        line = {"program": name}
        for label, method in (("default", DEFAULT), ("memory", MEMORY), ("ours", OURS)):
            line[label] = human_bytes(of[method, "temp_bytes"])
        line["temporaries"] = f"{of[OURS, 'temp_ratio']:.3f}"
        line["with results"] = f"{of[OURS, 'ratio']:.3f}"
        for metric in ("rank_correlation", "compile_ratio", "run_ratio", "equal"):
            if (OURS, metric) in of:
                line[metric.replace("_", " ")] = f"{of[OURS, metric]:.3g}"
        for label, method in (("resident", DEFAULT), ("ours resident", OURS)):
            if (method, "resident_bytes") in of:
                line[label] = human_bytes(of[method, "resident_bytes"])
        lines.append(line)
    return lines


KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "randomly wired": ("randwire_ws", "randwire_ba", "randwire_er", "random_cells"),
        "cells": ("nasnet", "darts", "amoebanet"),
        "attention, experts, mixers": (
            *("transformer_encoder", "transformer_decoder", "encoder_decoder", "vit"),
            *("mlp_mixer", "moe_dispatched", "moe_dense", "tiled_attention"),
        ),
        "recurrent, state space": (
            *("lstm", "gru", "wavefront_rnn", "s4", "selective_scan", "wavenet", "conv_lstm"),
            "neural_ode",
        ),
        "other convolutions": (
            *("resnet", "resnet_v2", "densenet", "inception", "fractalnet", "shakenet", "columns"),
            *("vgg", "mobilenet", "squeezenet", "shufflenet", "convnext", "unet"),
            *("unet_plus_plus", "hrnet"),
        ),
    }
)
"""Families of the model zoo by what they are made of; the others are "others"."""


def summary(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Ours over XLA's, by group of programs: temporaries over XLA's default and over its better
    order, with results over the latter; time and resident memory over the default; how many
    programs gave the same results, bit for bit."""
    of = by_program(rows)
    groups = {"all": list(of)}
    for name in of:
        groups.setdefault(_group(name), []).append(name)
    return [
        {"programs": group} | _summary([(name, of[name]) for name in names])
        for group, names in groups.items()
    ]


def _group(name: str) -> str:
    """A program's group: what gradients are of, or what another program does."""
    family, mode = name.split("/")
    if mode != "training":
        return mode
    kinds = [kind for kind, families in KINDS.items() if family in families]
    return f"training: {kinds[0] if kinds else 'others'}"


def _summary(
    programs: Sequence[tuple[str, Mapping[tuple[str, str], float]]],
) -> dict[str, str]:
    def over(metric: str, base: str) -> dict[str, float]:
        pairs = {name: (of.get((OURS, metric)), of.get((base, metric))) for name, of in programs}
        return {name: ours / plain for name, (ours, plain) in pairs.items() if ours and plain}

    def of_ours(metric: str) -> dict[str, float]:
        return {name: of[OURS, metric] for name, of in programs if (OURS, metric) in of}

    equal = of_ours("equal").values()
    ratios = {
        "temporaries over the default's": over("temp_bytes", DEFAULT),
        "over the better order's": of_ours("temp_ratio"),
        "with results": of_ours(_LAST_METRIC),
        "time": of_ours("run_ratio"),
        "resident memory": over("resident_bytes", DEFAULT),
    }
    line = {"number": str(len(programs))}
    line |= {label: mean(some) for label, some in ratios.items() if some}
    return line | ({"same bits": f"{sum(equal):.0f} of {len(equal)}"} if equal else {})


def _lowered(name: str) -> Any:
    one = program(name)
    return one.jitted().lower(*one.shapes)


def _rows(name: str, lowered: Any, options: Options, pairs: int, resident: bool) -> list[Row]:
    begin = time.perf_counter()
    lowered.compile()
    plain_seconds = time.perf_counter() - begin
    _, report = compile_best(lowered, options)
    found = _of_report(report)
    spent = report.search_seconds + report.compile_seconds
    found[OURS, "compile_ratio"] = spent / max(plain_seconds, 1e-9)
    found[DEFAULT, "compile_seconds"] = plain_seconds
    if pairs:
        compared = side_by_side.in_process(side_by_side.compare, name, options, pairs)
        found |= {(OURS, metric): value for metric, value in compared.items()}
    if resident:
        for method, how in ((DEFAULT, None), (OURS, options)):
            run = side_by_side.in_process(side_by_side.resident_bytes, name, how)
            found |= {(method, metric): value for metric, value in run.items()}
    found[OURS, _LAST_METRIC] = report.ratio
    limit = options.search.time_limit
    common = {"graph": name, "seed": options.search.seed, "budget": options.search.evaluations}
    common |= {"time_limit": "" if limit is None else limit}
    common |= {"jax": jax.__version__, "platform": jax.default_backend()}
    return [
        common | {"method": method, "metric": metric, "value": value}
        for (method, metric), value in found.items()
    ]


def _of_report(report: Report) -> dict[tuple[str, str], float]:
    """{(method, metric): value} of a decision."""
    found = {(name, "temp_bytes"): float(m.temporaries) for name, m in report.memory.items()}
    found |= {(name, "total_bytes"): float(m.total) for name, m in report.memory.items()}
    found |= {(name, "estimate"): float(value) for name, value in report.estimates.items()}
    ours = report.memory[report.chosen]
    xla = min((report.memory[name] for name in (DEFAULT, MEMORY)), key=lambda m: m.temporaries)
    found[OURS, "temp_bytes"], found[OURS, "total_bytes"] = map(
        float, (ours.temporaries, ours.total)
    )
    found[OURS, "temp_ratio"] = ours.temporaries / xla.temporaries if xla.temporaries else 1.0
    found[OURS, "search_seconds"] = report.search_seconds
    both = [name for name in report.estimates if name in report.memory]
    true = [report.memory[name].temporaries for name in both]
    expected = [report.estimates[name] for name in both]
    if len(set(true)) > 1 and len(set(expected)) > 1:
        found[OURS, "rank_correlation"] = float(spearmanr(expected, true).statistic)
    return found

"""REGAL's table 2: how long methods take, each measured right after the others on every graph."""

import functools
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from regal_jax import api
from regal_jax.environments.schedule import Objective
from regal_jax.errors import MissingDependencyError, OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.options import Options
from regal_jax.reporting import progress, statistics, tables
from regal_jax.studies import keys, paper_numbers
from regal_jax.studies.flags import option
from regal_jax.studies.kept import KEY, KeptRows
from regal_jax.studies.regal.experiment import XlaGraphs
from regal_jax.studies.settings import Output

EXTRA_COLUMNS = (KEY, "setting", "ops", "objective", "budget")


_SEARCH = "search by XLA, cost by numba"
METHODS: Mapping[str, str] = MappingProxyType(
    {
        "cp_sat": "solver in C++; stops after a minute",
        "partition_dfs": "partitioning by numba, order in Python",
        "local_search": "numba, incremental costs",
        "brkga": _SEARCH,
        "tuned_brkga": _SEARCH,
        "gas": _SEARCH + "; policy by XLA",
        "regal_paper": _SEARCH + "; policy by XLA, features in numpy",
        "auto": "numba; block moves by XLA",
    }
)
"""Methods of table 2, and ours, and what of them is compiled."""

PAPER_SECONDS = paper_numbers.values("regal_table_2", "seconds")
"""By graphs ("tensorflow", "xla") and method; those of cp_sat are "~2 hours" and "12+ hours"."""


@dataclass(frozen=True, kw_only=True)
class Settings(Output, XlaGraphs):
    """What is timed."""

    microbatches: tuple[int, ...] = option((1,), "Splits of the test graphs.", least=1)
    test_evaluations: int = option(5000, "Budget of each search.")
    methods: tuple[str, ...] = option(tuple(METHODS), "What to run.", least=1)
    objective: Objective = option("peak_memory", "What to minimise.")


def measure(
    settings: Mapping[str, Sequence[ComputationGraph]],
    methods: Sequence[str],
    *,
    evaluations: int,
    objective: Objective,
    path: str | os.PathLike,
) -> list[dict]:
    """Rows with ``first`` and ``seconds``: of a first call, which may compile, and of a second.

    Methods that can't run (no policy is shipped, no solver is installed) are left out, after
    it was printed why. What ``path`` holds already, of this machine, is not measured again.
    """
    kept, rows = KeptRows(path, "seconds", EXTRA_COLUMNS), []
    todo = [(s, g, m) for s, graphs in settings.items() for g in graphs for m in methods]
    skipped: set[str] = set()
    for setting, graph, method in progress.each("timings", todo):
        options = Options(objective=objective, method=method, evaluations=evaluations)
        key = keys.key(setting=setting, graph=graph, options=options, machine=keys.machine())
        if method not in skipped:
            try:
                rows += kept.rows(key, functools.partial(_rows, setting, graph, options))
            except (OptionError, MissingDependencyError) as error:
                skipped.add(method)
                print(f"{method} is left out: {error}")
    return rows


def _rows(setting: str, graph: ComputationGraph, options: Options) -> list[dict]:
    timed = {"first": _seconds(graph, options), "seconds": _seconds(graph, options)}
    common = {"setting": setting, "graph": graph.name, "ops": graph.num_ops}
    common |= {"method": options.method, "seed": options.seed}
    common |= {"objective": options.objective, "budget": options.evaluations}
    return [common | {"metric": name, "value": value} for name, value in timed.items()]


def page(rows: Sequence[dict]) -> str:
    """Table 2 of every setting, in Markdown."""
    parts = []
    for setting in dict.fromkeys(row["setting"] for row in rows):
        graphs = len({row["graph"] for row in rows if row["setting"] == setting})
        title = f"{setting[0].upper()}{setting[1:]}, {graphs} graphs, seconds a graph:"
        parts += [title, tables.markdown_table(table(rows, setting))]
    return "\n\n".join(parts) + "\n"


def table(rows: Sequence[dict], setting: str) -> list[dict[str, str]]:
    """Table 2 of one setting: mean seconds, over those of BRKGA, and the paper's: of its XLA
    graphs for the setting "XLA", else of its TensorFlow graphs."""
    seconds, first = _by_method(rows, setting, "seconds"), _by_method(rows, setting, "first")
    lines, theirs = [], PAPER_SECONDS["xla" if setting == "XLA" else "tensorflow"]
    for method, own in seconds.items():
        known = theirs.get(method)
        ratio = ""
        if "brkga" in seconds:
            graphs = own.keys() & seconds["brkga"].keys()
            ratio = (
                f"{statistics.geometric_mean([own[g] / seconds['brkga'][g] for g in graphs]):.3g}"
            )
        lines.append(
            {
                "method": method,
                "seconds": f"{np.mean(list(own.values())):.3g}",
                "over brkga": ratio,
                "first call": f"{np.mean(list(first[method].values())):.3g}",
                "paper": "" if known is None else f"{known:g}",
                "paper over brkga": "" if known is None else f"{known / theirs['brkga']:.3g}",
                "compiled": METHODS.get(method, ""),
            }
        )
    return lines


def _by_method(rows: Sequence[dict], setting: str, metric: str) -> dict[str, dict[str, float]]:
    """{method: {graph: value}}"""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if (row["setting"], row["metric"]) == (setting, metric):
            found.setdefault(row["method"], {})[row["graph"]] = float(row["value"])
    return found


def _seconds(graph: ComputationGraph, options: Options) -> float:
    begin = time.perf_counter()
    api.optimize(graph, options)
    return time.perf_counter() - begin

"""Comparing methods on many graphs and seeds: long-form rows, appended as they come, resumable."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np

from regal_jax import api
from regal_jax.environments.execution import prices
from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Objective
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.methods.simple import best_simple_schedule
from regal_jax.options import Options
from regal_jax.reporting import progress, statistics
from regal_jax.studies import executors, keys
from regal_jax.studies.kept import KEY, KeptRows

EXTRA_COLUMNS = (
    KEY,
    "setting",
    "ops",
    "evaluations",
    "budget",
    "time_limit",
    "devices",
    "latency",
    "per_byte",
    "memory_capacity",
    "policy",
)
LAST_METRIC = "lower_bound"
"""Written last: a search without it was cut off while it was written, and is run again."""


class Run(NamedTuple):
    """One search to do: a column of a table.

    Attributes:
      label: its name in tables, for example "brkga 5000".
      method: of ``optimize``. evaluations: its budget, None for the method's own.
      limits: also record the best cost after these many evaluations.
      options: keyword arguments of ``optimize`` for this run alone, such as its policy.
      warm_up: evaluations of a search on the same graph that comes first and is not recorded, so
        that no compilation is in the seconds; 0 for no such search.
    """

    label: str
    method: str
    evaluations: int | None
    limits: tuple[int, ...] = ()
    options: Mapping[str, Any] = MappingProxyType({})
    warm_up: int = 0


class PlatformRule(NamedTuple):
    """The platform of each graph.

    Attributes:
      num_devices, latency, per_byte: see ``optimize``; no number of devices (None) for graphs that
        have machine types, if the objective is the makespan.
      transfer_share: what a transfer takes more, and one of mean size once more, in mean durations
        of the graph's ops (``prices``).
      memory_share: memory of a device, as a share of the peak of the best simple order on one
        device; None is unlimited.
      memory_capacity: the same in bytes, instead.
    """

    num_devices: int | None = 2
    latency: float = 0.0
    per_byte: float = 0.0
    memory_share: float | None = None
    memory_capacity: int | None = None
    transfer_share: float = 0.0

    def options(self, graph: ComputationGraph) -> dict:
        """Keyword arguments of ``optimize``. OptionError for a share and a capacity at once."""
        if self.memory_share is not None and self.memory_capacity is not None:
            raise OptionError("memory_share and memory_capacity: give one of them")
        options: dict = {
            "num_devices": self.num_devices,
            "latency": self.latency,
            "per_byte": self.per_byte,
            "memory_capacity": self.memory_capacity,
        }
        if self.transfer_share:
            own = Platform(latency=self.latency, per_byte=self.per_byte)
            dear = prices.at_price(graph, own, (self.transfer_share, self.transfer_share))
            options |= {"latency": dear.latency, "per_byte": dear.per_byte}
        if self.memory_share is not None:
            alone = best_simple_schedule(graph, "peak_memory", Platform(1))
            options["memory_capacity"] = max(int(self.memory_share * max(alone.peak_memory)), 1)
        return options


class Line(NamedTuple):
    """One method's line of table 1.

    Attributes:
      method: its label.
      improvement, gap: percent over the reference, and from the best known; mean and interval.
      geometric_gap: percent by which the geometric mean of costs over the best known is above 1.
      win_or_tie: percent of (graph, seed) pairs at least as good as the reference.
      gains: mean improvement by graph.
    """

    method: str
    improvement: statistics.MeanInterval
    gap: statistics.MeanInterval
    geometric_gap: float
    win_or_tie: float
    gains: dict[str, float]


def compare(
    settings: Mapping[str, Sequence[ComputationGraph]],
    runs: Sequence[Run],
    *,
    seeds: int,
    path: str | os.PathLike,
    objective: Objective = "peak_memory",
    platform: PlatformRule | None = None,
    policies: Mapping[str, str | Path | None] | None = None,
    time_limit: float | None = None,
    executor: str = executors.HERE,
    title: str = "searches",
) -> list[dict]:
    """Rows of every method on every graph with every seed.

    The column "evaluations" has what was spent, "budget" what could have been.

    Args:
      settings: graphs by setting, for example "as traced" and "4 microbatches".
      runs: the methods.
      seeds: each search is done with seeds 0, 1, ..., seeds - 1.
      path: results file; what it holds already, of the same key, is not run again.
      objective, time_limit: see ``optimize``.
      platform: two devices by default.
      policies: policy files by method; the shipped ones by default.
      executor: where searches run (``executors``). Rows are the same, and in the same order, but
        for their seconds: searches that run beside others take longer.
      title: of the bar of progress.
    """
    kept = KeptRows(path, LAST_METRIC, EXTRA_COLUMNS)
    common = {"objective": objective, "time_limit": time_limit}
    todo = {}
    for setting, graph, run, own in _searches(
        settings, runs, seeds, platform or PlatformRule(), policies or {}
    ):
        run, options = run._replace(options={}), Options(**common | own)
        key = keys.key(setting=setting, graph=graph, run=run, options=options)
        todo[key] = (graph, run, setting, options)
    missing = [key for key in todo if key not in kept]
    with progress.bar(title, len(missing)) as update:
        made = executors.completed(executor, _rows, [todo[key] for key in missing])
        for count, (number, rows) in enumerate(made, 1):
            kept.add(missing[number], rows)
            update(count)
    kept.arrange(todo)
    return [row for key in todo for row in kept[key]]


def compare_random(
    settings: Mapping[str, Sequence[ComputationGraph]],
    runs: Sequence[Run],
    is_fixed: Callable[[Run], bool],
    *,
    seeds: int,
    **options: Any,
) -> list[dict]:
    """``compare`` with so many seeds for the runs that aren't fixed.

    Seconds are those of ``optimize``: features and reading the policy count. Compilation doesn't,
    where a run has a warm-up.
    """
    fixed = [run for run in runs if is_fixed(run)]
    random = [run for run in runs if not is_fixed(run)]
    rows = compare(settings, fixed, seeds=1, **options)
    return rows + compare(settings, random, seeds=seeds, **options)


MOST_MAPPINGS = 40_000
"""Memory mappings from which compiled programs are dropped: each takes some 2,000 on a CPU, and
Linux gives a process 65,530."""


def make_room(most: int = MOST_MAPPINGS) -> bool:
    """Drops all compiled programs, if a process has so many mappings; whether it did."""
    mappings = Path("/proc/self/maps")
    if not mappings.exists() or mappings.read_bytes().count(b"\n") <= most:
        return False
    jax.clear_caches()
    return True


def _searches(
    settings: Mapping[str, Sequence[ComputationGraph]],
    runs: Sequence[Run],
    seeds: int,
    platform: PlatformRule,
    policies: Mapping[str, str | Path | None],
) -> Iterator[tuple[str, ComputationGraph, Run, dict[str, Any]]]:
    """Setting, graph, run and fields of ``Options`` of each search, seed by seed."""
    todo = [(s, graph, platform.options(graph)) for s in settings for graph in settings[s]]
    for seed in range(seeds):
        for setting, graph, own in todo:
            for run in runs:
                asked: dict[str, Any] = {"method": run.method, "evaluations": run.evaluations}
                asked |= {"seed": seed, "policy": policies.get(run.method)}
                yield setting, graph, run, own | asked | dict(run.options)


def _rows(graph: ComputationGraph, run: Run, setting: str, options: Options) -> list[dict]:
    make_room()
    if run.warm_up:
        api.optimize(graph, options, evaluations=run.warm_up)
    schedule = api.optimize(graph, options)
    after = {f"cost@{limit}": _cost_after(schedule.history, limit) for limit in run.limits}
    metrics = {name: cost for name, cost in after.items() if np.isfinite(cost)}
    metrics |= {"cost": schedule.cost, "seconds": schedule.seconds}
    metrics[LAST_METRIC] = float(schedule.lower_bound or 0.0)
    common = {"setting": setting, "graph": graph.name, "ops": graph.num_ops}
    common |= {"method": run.label, "evaluations": schedule.evaluations} | _readable(options)
    return [common | {"metric": name, "value": value} for name, value in metrics.items()]


def _readable(options: Options) -> dict[str, Any]:
    """What was asked for, as columns; empty where it is the default."""
    columns = {
        "budget": options.evaluations,
        "time_limit": options.time_limit,
        "devices": options.num_devices,
        "latency": options.latency,
        "per_byte": options.per_byte,
        "memory_capacity": options.memory_capacity,
        "policy": options.policy and Path(options.policy).name,
    }
    found = {name: "" if value is None else value for name, value in columns.items()}
    return found | {"seed": options.seed}


def _cost_after(history, limit: int) -> float:
    """Best cost of a history once ``limit`` evaluations are spent; infinite before the first."""
    return min((cost for spent, cost in history if spent <= limit), default=float("inf"))


def costs_by_graph(rows: Sequence[dict], setting: str, metric: str = "cost") -> dict:
    """{method: {graph: [cost of seed 0, cost of seed 1, ...]}} of one setting."""
    table: dict[str, dict[str, dict[int, float]]] = {}
    for row in rows:
        if row["setting"] == setting and row["metric"] == metric:
            seeds = table.setdefault(row["method"], {}).setdefault(row["graph"], {})
            seeds[int(row["seed"])] = float(row["value"])
    return {
        method: {graph: [seeds[s] for s in sorted(seeds)] for graph, seeds in graphs.items()}
        for method, graphs in table.items()
    }


def summary(
    rows: Sequence[dict], setting: str, reference: str, *, subset: set[str] | None = None
) -> list[Line]:
    """The paper's table 1: improvement over a reference method and gap from the best known.

    Percentages are means over seeds, then over graphs, with 95% intervals over graphs; a win or tie
    is a pair (graph, seed) on which the method is at least as good as the reference.

    Args:
      rows: from ``compare``.
      setting: which graphs. reference: label of the method to compare with.
      subset: names of graphs to keep, all by default.
    """
    costs = costs_by_graph(rows, setting)
    graphs = [g for g in costs.get(reference, {}) if subset is None or g in subset]
    best = {g: min(min(c[g]) for c in costs.values() if g in c) for g in graphs}
    lines = []
    for method, by_graph in costs.items():
        pairs = {g: _paired(by_graph[g], costs[reference][g]) for g in graphs if g in by_graph}
        if not pairs:
            continue
        gains = {g: statistics.improvement_percent(*pair) for g, pair in pairs.items()}
        gaps = {g: statistics.gap_percent(pair[0], best[g]) for g, pair in pairs.items()}
        ratios = [1.0 + float(np.mean(gap)) / 100.0 for gap in gaps.values()]
        wins = [statistics.win_or_tie_share(*pair) for pair in pairs.values()]
        lines.append(
            Line(
                method=method,
                improvement=statistics.mean_interval(gains),
                gap=statistics.mean_interval(gaps),
                geometric_gap=100.0 * (statistics.geometric_mean(ratios) - 1.0),
                win_or_tie=100.0 * float(np.mean(wins)),
                gains={g: float(np.mean(gain)) for g, gain in gains.items()},
            )
        )
    return lines


def _paired(costs: Sequence[float], references: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Costs of the seeds both have; a rule without randomness may have been run once."""
    if len(set(costs)) == 1:
        costs = [costs[0]] * len(references)
    count = min(len(costs), len(references))
    return np.array(costs[:count]), np.array(references[:count])

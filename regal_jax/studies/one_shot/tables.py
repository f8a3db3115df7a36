"""Tables of one-shot priority sampling from rows of a comparison, published numbers beside."""

import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import statistics, tables
from regal_jax.studies import paper_numbers
from regal_jax.studies.comparison import searches
from regal_jax.studies.topoformer.tables import paper_key

Costs = Mapping[str, Mapping[str, Sequence[float] | np.ndarray]]
"""By method and graph, a number a seed."""
Published = Mapping[str, Mapping[str, float]]
"""Means by setting and method; our methods by their label without numbers."""

PUBLISHED_TPCH: Published = MappingProxyType(paper_numbers.values("ppo_bihyb_tpch", "makespan"))
"""Means over the 10 test graphs, from PPO-BiHyb's public page (its shortest job first is spt).

They were counted in floating-point shares of the capacity, by whose rounding ops that fit exactly
may not fit, and ties go to the higher op index; ours count whole units, and ties go to the lower
one. So the same rule's means differ, by up to 2.1 %.
"""
PUBLISHED_JOB_SHOPS: Published = MappingProxyType(paper_numbers.values("slim", "gap"))
"""Mean gaps of all 80 instances of each family (Corsini et al. 2024, arXiv 2401.11849): one greedy
schedule, and the best of samples."""


class MachineLine(NamedTuple):
    """One method's line.

    Attributes:
      method: its label.
      makespan, speedup: in the graphs' unit of time; the sum of all durations over the makespan.
      gap: percent over the reference. The three are means and 95 % intervals over graphs.
      reached: percent of the graphs on which the mean over seeds is at the reference.
      seconds: of a graph, the median. graphs: how many.
    """

    method: str
    makespan: statistics.MeanInterval
    speedup: statistics.MeanInterval
    gap: statistics.MeanInterval
    reached: float
    seconds: float
    graphs: int


def summary(
    rows: Sequence[dict],
    setting: str,
    graphs: Sequence[ComputationGraph],
    methods: Sequence[str],
    best_known: Mapping[str, float] | None = None,
) -> list[MachineLine]:
    """A line for each of the methods, in this order, on those of the graphs that it was run on.

    Args:
      rows: from ``searches.compare``.
      setting, graphs: of the rows. methods: their labels.
      best_known: by name of the graph, what gaps are measured from; by default the largest lower
        bound that any method of the rows found.
    """
    costs = searches.costs_by_graph(rows, setting)
    seconds = searches.costs_by_graph(rows, setting, "seconds")
    reference = lower_bounds(rows, setting) if best_known is None else best_known
    lines = []
    for method in methods:
        known = {
            g: np.array(costs[method][g.name]) for g in graphs if g.name in costs.get(method, {})
        }
        if not known:
            continue
        makespans = {graph.name: makespan for graph, makespan in known.items()}
        speedups = {
            graph.name: graph.duration.sum() / makespan for graph, makespan in known.items()
        }
        gaps = {name: statistics.gap_percent(c, reference[name]) for name, c in makespans.items()}
        lines.append(
            MachineLine(
                method,
                statistics.mean_interval(makespans),
                statistics.mean_interval(speedups),
                statistics.mean_interval(gaps),
                100.0 * float(np.mean([gap.mean() <= 1e-9 for gap in gaps.values()])),
                float(np.median([np.mean(seconds[method][name]) for name in makespans])),
                len(makespans),
            )
        )
    return lines


def gaps(
    rows: Sequence[dict], known: Mapping[str, float], published: Published | None = None
) -> list[dict[str, str]]:
    """Percent above the best known makespans, or where none is known the best of the rows: a line a
    method, a column a setting, means and 95 % intervals over graphs; then published ones."""

    def values(costs: Costs) -> Costs:
        names = {name for by_graph in costs.values() for name in by_graph}
        best = {n: min(min(c[n]) for c in costs.values() if n in c) for n in names} | dict(known)
        return {
            method: {name: statistics.gap_percent(c, best[name]) for name, c in by_graph.items()}
            for method, by_graph in costs.items()
        }

    return _with_published(_by_setting(rows, values, ".1f"), published or {})


def makespans(rows: Sequence[dict], published: Published) -> list[dict[str, str]]:
    """Means and 95 % intervals over graphs: a line a method, a column a setting; then lines of
    published methods that we don't have."""
    return _with_published(_by_setting(rows, lambda costs: costs, ".6g"), published)


def _with_published(table: list[dict[str, str]], published: Published) -> list[dict[str, str]]:
    """The lines, and those of published methods that they don't have, of the first's settings."""
    others: dict[str, dict[str, str]] = {}
    for column in list(table[0])[1:]:
        for name, value in published.get(column.partition(" (")[0], {}).items():
            others.setdefault(name, {"method": f"{name}, published"})[column] = f"{value:g}"
    ours = {paper_key(row["method"].strip("`")) for row in table}
    return table + [row for name, row in others.items() if name not in ours]


def _by_setting(
    rows: Sequence[dict], values: Callable[[Costs], Costs], fmt: str
) -> list[dict[str, str]]:
    """A line a method, a column a setting with the number of its graphs."""
    table: dict[str, dict[str, str]] = {}
    for setting in dict.fromkeys(row["setting"] for row in rows):
        for method, by_graph in values(searches.costs_by_graph(rows, setting)).items():
            row = table.setdefault(method, {"method": f"`{method}`"})
            row[f"{setting} ({len(by_graph)})"] = statistics.mean_interval(by_graph).text(fmt)
    return list(table.values())


def lower_bounds(rows: Sequence[dict], setting: str) -> dict[str, float]:
    """By name of the graph, the largest lower bound that any method found."""
    found: dict[str, float] = {}
    for by_graph in searches.costs_by_graph(rows, setting, searches.LAST_METRIC).values():
        for graph, bounds in by_graph.items():
            found[graph] = max(found.get(graph, 0.0), *bounds)
    return found


def best_of(rows: Sequence[dict], methods: Sequence[str], label: str) -> list[dict]:
    """Rows of one more method: the best of several on each graph, in all their time."""
    merge: dict[str, Callable[[float, float], float]] = {
        "cost": min,
        "seconds": operator.add,
        searches.LAST_METRIC: max,
    }
    merged: dict[tuple, dict] = {}
    for row in rows:
        if row["method"] in methods and row["metric"] in merge:
            key = row["setting"], row["graph"], row["seed"], row["metric"]
            value = merged[key]["value"] if key in merged else None
            best = row["value"] if value is None else merge[row["metric"]](value, row["value"])
            merged[key] = row | {"method": label, "value": best}
    return list(merged.values())


def text(
    title: str,
    lines: Sequence[MachineLine],
    *,
    speedup: bool = False,
    published: Mapping[str, float] | None = None,
) -> str:
    """The lines as a table.

    Args:
      title, lines: see ``summary``.
      speedup: speedups instead of makespans.
      published: of this setting, as a column; methods that we don't have get lines of their own.
    """
    published = published or {}
    table = [_row(line, speedup, published) for line in lines]
    ours = {paper_key(line.method) for line in lines}
    table += [
        {"method": name, "published": f"{value:g}"}
        for name, value in published.items()
        if name not in ours
    ]
    return f"{title} ({max(line.graphs for line in lines)} graphs)\n{tables.text_table(table)}"


def _row(line: MachineLine, speedup: bool, published: Mapping[str, float]) -> dict[str, str]:
    row = {"method": line.method}
    if speedup:
        row["speedup"] = line.speedup.text(".3f")
    else:
        row["makespan"] = line.makespan.text(".6g")
    if published:
        value = published.get(paper_key(line.method))
        row["published"] = "" if value is None else f"{value:g}"
    row["gap %"] = line.gap.text()
    return row | {"reached %": f"{line.reached:.0f}", "seconds": f"{line.seconds:.3g}"}

"""Costs by seconds of programs that race for the best schedule: a benchmark's rows and table."""

from collections.abc import Mapping, Sequence

import numpy as np

from regal_jax.reporting import statistics
from regal_jax.reporting.results import Row
from regal_jax.reporting.tables import markdown_table, number_of
from regal_jax.studies.comparison import searches
from regal_jax.studies.kept import KEY

SECONDS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""After which costs are looked at."""
LAST_METRIC = "lower_bound"
COLUMNS = (
    KEY,
    "setting",
    "ops",
    "devices",
    "latency",
    "per_byte",
    "time_limit",
    "cores",
    "version",
)
CLOSE = 1.0
"""Percent above the best known within which a schedule counts as good."""


def metrics(points: Sequence[tuple[float, float]], seconds: float) -> dict[str, float]:
    """``cost@S`` for each of ``SECONDS`` within the limit by which there is a schedule.

    Args:
      points: (seconds, cost) of schedules as they were found, not only of better ones.
      seconds: the limit. A schedule that came a little later than a limit, since programs look at
        the clock now and then, isn't counted.
    """
    found = {}
    for limit in SECONDS:
        costs = [cost for after, cost in points if after <= limit]
        if costs and limit <= seconds:
            found[f"cost@{limit:g}"] = float(min(costs))
    return found


def page(rows: Sequence[Row]) -> str:
    """A line a setting and program, in Markdown: gaps by seconds, and good schedules in the end."""
    lines = []
    for setting in dict.fromkeys(row["setting"] for row in rows):
        lines += _lines([row for row in rows if row["setting"] == setting], setting)
    cores = rows[0]["cores"]
    caption = (
        "Percent above the best known schedule by seconds: mean and 95 % interval over graphs; the"
        " mean alone, and\nof how many graphs, where others have no schedule yet; on how many it"
        f" is within {CLOSE:g} % in the end.\nOn {cores} core, 1 seed; the number of graphs stands"
        " beside the setting."
    )
    return f"{caption}\n\n{markdown_table(lines)}\n"


def sentence(rows: Sequence[Row], settings: Mapping[str, str]) -> str:
    """How far programs are above the best known in the end, by what a setting is called here."""
    parts = []
    for setting, called in settings.items():
        some = [row for row in rows if row["setting"] == setting]
        limit = _limits(some)[-1]
        gaps = _gaps(some, setting, limit)
        means = {name: np.mean(list(by_graph.values())) for name, by_graph in gaps.items()}
        ranked = ", ".join(
            f"{name} {means[name]:.1f}" for name in sorted(means, key=lambda one: means[one])
        )
        parts.append(f"{called} {ranked}")
    graphs = number_of(len({row["graph"] for row in rows}), "graph")
    return (
        f"Percent above the best known after {limit:g} s on a core, {graphs}, two devices:"
        f" {'; '.join(parts)}.\n"
    )


def _lines(rows: Sequence[Row], setting: str) -> list[dict[str, str]]:
    graphs, limits = {row["graph"] for row in rows}, _limits(rows)
    gaps = {limit: _gaps(rows, setting, limit) for limit in limits}
    lines = []
    for name in dict.fromkeys(row["method"] for row in rows):
        line = {"setting": f"{setting} ({len(graphs)})", "program": f"`{name}`"}
        line |= {f"{limit:g} s": _gap(gaps[limit].get(name, {}), len(graphs)) for limit in limits}
        close = [gap <= CLOSE for gap in gaps[limits[-1]].get(name, {}).values()]
        lines.append(line | {f"within {CLOSE:g} %": str(sum(close))})
    return lines


def _limits(rows: Sequence[Row]) -> list[float]:
    """Seconds that some row has a cost after."""
    asked = {row["metric"] for row in rows}
    return [limit for limit in SECONDS if f"cost@{limit:g}" in asked]


def _gaps(rows: Sequence[Row], setting: str, limit: float) -> dict[str, dict[str, float]]:
    """Percent above the best known, by program and graph."""
    best = _best(rows)
    return {
        name: {graph: _percent(cost, best[graph]) for graph, (cost,) in by_graph.items()}
        for name, by_graph in searches.costs_by_graph(rows, setting, f"cost@{limit:g}").items()
    }


def _percent(cost: float, best: float) -> float:
    return float(statistics.gap_percent(cost, best))


def _best(rows: Sequence[Row]) -> Mapping[str, float]:
    """The least cost of each graph, of all programs."""
    best: dict[str, float] = {}
    for row in rows:
        if row["metric"].startswith("cost@"):
            best[row["graph"]] = min(float(row["value"]), best.get(row["graph"], np.inf))
    return best


def _gap(gaps: Mapping[str, float], graphs: int) -> str:
    if not gaps:
        return ""
    interval = statistics.mean_interval(gaps)
    if len(gaps) == graphs:
        return interval.text(".1f")
    return f"{interval.mean:.1f} ({len(gaps)})"

"""``recompute`` beside CP-SAT's proven optimum: the least work within memory limits."""

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import regal_jax as rj
from regal_jax.datasets.layered import layered_graphs
from regal_jax.datasets.zoo import load
from regal_jax.environments.recompute.bounds import least_memory
from regal_jax.reporting import statistics, tables
from regal_jax.reporting.results import Row
from regal_jax.search.cp_sat import recompute
from regal_jax.studies import keys
from regal_jax.studies.flags import option
from regal_jax.studies.kept import KEY, KeptRows
from regal_jax.studies.settings import Output

LAYERED_SEED = 9
ORDER_EVALUATIONS = 1000
"""Of the order without recomputation, a good one, from whose peak on limits are counted."""
_LAST_METRIC = "proven"
_EXTRA_COLUMNS = (KEY, "ops", "percent")


@dataclass(frozen=True, kw_only=True)
class Settings(Output):
    """Which graphs and limits, and how long each is worked at."""

    zoo_graphs: int = option(9, "Train steps of the zoo, drawn at random.")
    layered: tuple[int, ...] = option((30, 40, 60), "Sizes of layered graphs.")
    layered_graphs: int = option(2, "Of each size.")
    max_ops: int = option(100, "Larger graphs of the zoo are left out.", least=1)
    percents: tuple[int, ...] = option(
        (80, 60, 50), "Limits: of the way from what any schedule needs to the peak of an order."
    )
    seconds: float = option(5.0, "Of recompute.")
    solver_seconds: float = option(8.0, "Of CP-SAT.")


def graphs(settings: Settings) -> list[rj.ComputationGraph]:
    """Train steps whose order needs more than any schedule does, and layered graphs."""
    every = load.model_zoo(split="all")
    order = np.random.default_rng(0).permutation(len(every))
    zoo = (every[index] for index in order)
    steps = (g for g in zoo if "training" in g.name and g.num_ops <= settings.max_ops)
    found = [g for g, _ in zip(steps, range(settings.zoo_graphs), strict=False)]
    for size in settings.layered:
        found += [_sized(g) for g in layered_graphs(LAYERED_SEED, settings.layered_graphs, size)]
    return found


def _sized(graph: rj.ComputationGraph) -> rj.ComputationGraph:
    """With durations of 1 to 9 us, by the op's number."""
    return graph.replace(duration=1.0 + np.arange(graph.num_ops) * 7 % 9)


def run(settings: Settings, path: Path) -> list[Row]:
    """Rows of every graph and limit, appended to ``path``; what is there isn't made again."""
    kept, rows = KeptRows(path, _LAST_METRIC, _EXTRA_COLUMNS), []
    options = {"seconds": settings.seconds, "solver_seconds": settings.solver_seconds}
    for graph in graphs(settings):
        for percent in settings.percents:
            key = keys.key(graph=graph.name, percent=percent, **options)
            rows += kept.rows(key, functools.partial(_rows, graph, percent, settings))
    return rows


def _rows(graph: rj.ComputationGraph, percent: int, settings: Settings) -> list[Row]:
    ordered = rj.optimize(graph, method="exact", num_devices=1, evaluations=ORDER_EVALUATIONS)
    least = least_memory(graph)
    limit = least + percent * (ordered.peak_memory[0] - least) // 100
    options = rj.Options(
        objective="makespan", num_devices=1, memory_capacity=limit, time_limit=settings.seconds
    )
    ours = rj.optimize(graph, options, method="recompute")
    solved = recompute.solve(
        *(graph, ours.ops_in_order(), limit), seconds=settings.solver_seconds, hint=ours.steps
    )
    once = float(graph.duration.sum())
    found = ours.makespan if ours.peak_memory[0] <= limit else math.inf
    values = {("recompute", "more_work"): found, ("cp_sat", "more_work"): solved.work}
    common = {"graph": graph.name, "seed": 0, "ops": graph.num_ops, "percent": percent}
    rows = [
        {"method": method, "metric": metric, "value": 100 * (work / once - 1)}
        for (method, metric), work in values.items()
        if math.isfinite(work)
    ]
    rows.append({"method": "cp_sat", "metric": _LAST_METRIC, "value": int(solved.optimal)})
    return [common | row for row in rows]


@dataclass(frozen=True)
class Answer:
    """What is known of one problem, % more work than that of each op once; None is nothing found.

    ``proven``: CP-SAT's answer is the least work in its model, or that nothing fits there.
    """

    graph: str
    ops: str
    percent: int
    ours: float | None = None
    solver: float | None = None
    proven: bool = False

    @property
    def gap(self) -> float | None:
        """% of work that is ours beyond the solver's, where both are known."""
        if self.ours is None or self.solver is None:
            return None
        return 100 * ((100 + self.ours) / (100 + self.solver) - 1)


def answers(rows: Sequence[Row]) -> list[Answer]:
    """A problem a graph and limit, in their order."""
    found: dict[tuple[str, int], Answer] = {}
    for row in rows:
        name = row["graph"], int(row["percent"])
        one = found.get(name) or Answer(row["graph"], row["ops"], name[1])
        if row["metric"] == _LAST_METRIC:
            found[name] = dataclasses.replace(one, proven=bool(row["value"]))
        elif row["method"] == "cp_sat":
            found[name] = dataclasses.replace(one, solver=float(row["value"]))
        else:
            found[name] = dataclasses.replace(one, ours=float(row["value"]))
    return list(found.values())


def page(rows: Sequence[Row]) -> str:
    """By limit, then every problem, in Markdown."""
    every = answers(rows)
    percents = sorted({one.percent for one in every}, reverse=True)
    lines = [_line(f"{p} %", [one for one in every if one.percent == p]) for p in percents]
    each = list(_each(every))
    return (
        f"{tables.markdown_table([*lines, _line('all', every)])}\n\n{tables.markdown_table(each)}\n"
    )


def _line(limit: str, some: Sequence[Answer]) -> dict[str, str]:
    known: dict[str, list[float]] = {}
    for one in some:
        if one.proven and one.gap is not None:
            known.setdefault(one.graph, []).append(one.gap)
    mean = statistics.mean_interval(known).text() if known else ""
    none = [one for one in some if one.solver is None and one.ours is None]
    return {
        "limit": limit,
        "problems": str(len(some)),
        "`recompute` fits": str(sum(one.ours is not None for one in some)),
        "CP-SAT fits": str(sum(one.solver is not None for one in some)),
        "proven that none fits": str(sum(one.proven for one in none)),
        "proven least work": str(sum(map(len, known.values()))),
        "gap to it, mean %": mean,
    }


def _each(some: Sequence[Answer]) -> Iterator[dict[str, str]]:
    for one in some:
        yield {
            "graph": f"`{one.graph}`",
            "ops": one.ops,
            "limit": f"{one.percent} %",
            "`recompute`, % more work": _number(one.ours),
            "CP-SAT": _number(one.solver),
            "proven": "yes" if one.proven else "",
        }


def _number(value: float | None) -> str:
    return "none fits" if value is None else f"{max(value, 0.0):.2f}"

"""REGAL's figures 5 and 6, and section 4.4: what searches reach as their budget grows.

One long search a method, graph and seed; what it had after fewer evaluations is read off its
history.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from regal_jax.reporting import statistics
from regal_jax.studies import paper_numbers
from regal_jax.studies.comparison import searches as comparison_searches
from regal_jax.studies.comparison.searches import Run

LIMITS = (1000, 2000, 5000, 10_000, 20_000, 50_000)
"""The evaluation limits of figure 5."""
REFERENCE = 5000
"""Evaluations of the BRKGA that all is compared with."""
_STEP = 100

_TEXT = paper_numbers.values("regal_text", "fewer_generations")
PAPER_FEWER_GENERATIONS = _TEXT["tensorflow"]["regal"]
"""Percent, of REGAL until it has BRKGA's value, where it ties or wins (section 4.4)."""


def long_runs(methods: Sequence[str], evaluations: int) -> list[Run]:
    """A search a method, with its cost at every limit and at every hundred until REFERENCE."""
    fine = range(_STEP, min(REFERENCE, evaluations) + 1, _STEP)
    limits = tuple(sorted({*fine, *(limit for limit in LIMITS if limit <= evaluations)}))
    return [Run(method, method, evaluations, limits) for method in methods]


def improvements(
    rows: Sequence[dict], setting: str, limit: int, reference: int
) -> dict[str, dict[str, np.ndarray]]:
    """{method: {graph: percent over BRKGA with ``reference`` evaluations, by seed}} at a limit."""
    base = _at(rows, setting, reference).get("brkga", {})
    return {
        method: {
            graph: statistics.improvement_percent(costs, base[graph])
            for graph, costs in by_graph.items()
            if graph in base and len(base[graph]) == len(costs)
        }
        for method, by_graph in _at(rows, setting, limit).items()
    }


def curve(rows: Sequence[dict], setting: str, limits: Sequence[int], reference: int) -> list[dict]:
    """Rows of figure 5: method, evaluations, and the fields of the improvement's MeanInterval."""
    points = []
    for limit in limits:
        for method, gains in improvements(rows, setting, limit, reference).items():
            if gains:
                interval = statistics.mean_interval(gains)._asdict()
                points.append({"method": method, "evaluations": limit, **interval})
    return points


def fewer_evaluations(
    rows: Sequence[dict], setting: str, method: str, reference: int
) -> tuple[float, float]:
    """(percent fewer evaluations, percent of searches): how much sooner a method has the value of
    BRKGA's ``reference`` evaluations, over the searches that get there in as many."""
    base = _at(rows, setting, reference).get("brkga", {})
    by_limit = {
        limit: _at(rows, setting, limit).get(method, {})
        for limit in range(_STEP, reference + 1, _STEP)
    }
    saved, searches = [], 0
    for graph, goals in base.items():
        for seed, goal in enumerate(goals):
            searches += 1
            reached = (
                limit
                for limit, costs in by_limit.items()
                if len(costs.get(graph, ())) > seed and costs[graph][seed] <= goal
            )
            first = next(reached, None)
            if first is not None:
                saved.append(100.0 * (1.0 - first / reference))
    return float(np.mean(saved)) if saved else 0.0, 100.0 * len(saved) / max(searches, 1)


def _at(rows: Sequence[dict], setting: str, limit: int) -> Mapping[str, Mapping[str, list[float]]]:
    return comparison_searches.costs_by_graph(rows, setting, f"cost@{limit}")

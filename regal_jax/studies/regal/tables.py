"""REGAL's table 1 from the rows of a comparison, the paper's numbers beside."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from regal_jax.environments.schedule import Objective
from regal_jax.errors import RegalError
from regal_jax.reporting import tables
from regal_jax.studies import paper_numbers
from regal_jax.studies.comparison import searches
from regal_jax.studies.comparison.searches import Line, Run


def _paper() -> dict[str, dict[str, tuple[float | None, float]]]:
    workshop = paper_numbers.values("regal_workshop_table_1", "gap")
    table_1 = paper_numbers.numbers("regal_table_1")["tensorflow"]
    peak = {name: (cell["improvement"].value, cell["gap"].value) for name, cell in table_1.items()}
    time = {name: (None, gap) for name, gap in workshop["tensorflow makespan"].items()}
    return {
        "peak_memory": peak | {"idrs": (None, workshop["tensorflow peak_memory"]["idrs"])},
        "makespan": time | {"brkga": (0.0, time["brkga"][1])},
    }


PAPER: Mapping[str, Mapping[str, tuple[float | None, float]]] = MappingProxyType(_paper())
"""(% improvement over BRKGA 5K, % gap from best) on TensorFlow test sets: of peak memory, table 1;
of running time and for IDRS, table 1 of the workshop paper (geometric means, no improvements)."""

PAPER_WIN_OR_TIE = paper_numbers.values("regal_text", "win_or_tie")["tensorflow"]["regal"]
"""Percent of test graphs on which REGAL matches or beats BRKGA (section 4.4)."""

REFERENCE = "brkga"
"""Improvements are over this method."""

HEADROOM = 2.0
"""Percent between BRKGA and the best known from which a graph counts as having headroom."""

_FIXED = (
    *("depth_first", "breadth_first", "random_order", "lpmf", "xla_list", "xla_dfs"),
    *("partition_dfs", "metis_dfs", "mtkahypar_dfs", "cp_sat"),
    *("critical_path", "heft", "cpop", "etf", "hbmct"),
)
"""Methods without a budget of evaluations."""


def regal_runs(methods: Sequence[str], evaluations: int) -> list[Run]:
    """The columns of the table: each method at one budget."""
    return [Run(label(method, evaluations), method, evaluations) for method in methods]


def regal_report(rows: Sequence[dict], objective: Objective = "peak_memory") -> str:
    """``table_1`` as text."""
    return "\n\n".join(
        f"{title}\n{tables.text_table(table)}" for title, table in table_1(rows, objective)
    )


def table_1(
    rows: Sequence[dict], objective: Objective = "peak_memory"
) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Titles and lines of table 1 for every setting, of all graphs and of those with headroom."""
    reference = reference_of(rows)
    for setting in dict.fromkeys(row["setting"] for row in rows):
        lines = searches.summary(rows, setting, reference)
        graphs = f"{len(lines[0].gains)} graphs, {_bounded_share(rows, setting, reference)}"
        yield f"{setting}, all {graphs}", [_row(line, objective) for line in lines]
        if subset := _with_headroom(lines, rows, setting, reference):
            lines = searches.summary(rows, setting, reference, subset=subset)
            title = f"{setting}, {len(subset)} graphs with at least {HEADROOM:.0f}% headroom"
            yield title, [_row(line, objective) for line in lines]


def reference_of(rows: Sequence[dict]) -> str:
    """The label of brkga with the largest budget. RegalError for rows without it."""
    labels = {row["method"] for row in rows if row["method"].split()[0] == REFERENCE}
    if not labels:
        raise RegalError(f"results: no rows of {REFERENCE}, over which improvements are")
    return max(labels, key=lambda label: int([*label.split(), "0"][1]))


def label(method: str, evaluations: int) -> str:
    """A run's name in tables."""
    return method if method in _FIXED else f"{method} {evaluations}"


def paper_of(method: str, objective: Objective) -> tuple[float | None, float] | None:
    """The numbers of PAPER for a method of this package: REGAL is ``regal_paper`` here."""
    names = {"regal_paper": "regal", "regal": ""}
    return PAPER[objective].get(names.get(method, method))


def _row(line: Line, objective: Objective) -> dict[str, str]:
    method = line.method.split()[0]
    at_its_budget = line.method in (method, f"{method} 5000")
    paper = paper_of(method, objective) if at_its_budget else None
    row = {
        "method": line.method,
        "improvement %": line.improvement.text(),
        "paper": f"{paper[0]:.2f}" if paper and paper[0] is not None else "",
        "gap from best %": line.gap.text(),
        "geometric": f"{line.geometric_gap:.2f}",
        "paper ": f"{paper[1]:.2f}" if paper else "",
        "win or tie %": f"{line.win_or_tie:.1f}",
    }
    if (method, objective) == ("regal_paper", "peak_memory") and paper:
        row["paper  "] = f"{PAPER_WIN_OR_TIE:.1f}"
    return row


def _with_headroom(lines, rows, setting: str, reference: str) -> set[str]:
    costs = searches.costs_by_graph(rows, setting)
    graphs = next(line for line in lines if line.method == reference).gains
    best = {g: min(min(c[g]) for c in costs.values() if g in c) for g in graphs}
    mean = {g: np.mean(costs[reference][g]) for g in graphs}
    return {g for g in graphs if mean[g] > best[g] * (1 + HEADROOM / 100)}


def _bounded_share(rows, setting: str, reference: str) -> str:
    """How many graphs the reference already solves to its lower bound."""
    costs = searches.costs_by_graph(rows, setting)[reference]
    bounds = searches.costs_by_graph(rows, setting, "lower_bound")[reference]
    at_bound = [min(costs[g]) <= min(bounds[g]) for g in costs]
    return f"{100 * np.mean(at_bound):.1f}% at their lower bound by {reference} already"

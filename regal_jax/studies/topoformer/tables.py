"""Tables 1 to 4 of neural_topological_ordering from rows of a comparison, the paper's beside."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from regal_jax.reporting import statistics, tables
from regal_jax.studies import paper_numbers
from regal_jax.studies.comparison import searches

HEADROOM = 2.0
"""Percent between the worst and the best known from which on a graph counts as having headroom."""


PaperTable = paper_numbers.Numbers
"""Cells "gap", the mean % gap from approximate DP and half of its 95 % interval, where it is given,
and "seconds", the mean of a graph on one V100 (depth-first DP on a CPU)."""

PaperCells = Mapping[str, Mapping[str, paper_numbers.Number]]
"""Those of a setting, by method."""

PAPER_TABLE_1 = paper_numbers.numbers("topoformer_table_1")
"""Layered graphs; methods by their label without numbers."""

PAPER_TABLE_2 = paper_numbers.numbers("topoformer_table_2")
"""Real graphs, which aren't public: a fifth of 115."""

PAPER_TABLE_3 = paper_numbers.numbers("topoformer_table_3")
"""Encoders on layered graphs."""

PAPER_TABLE_4 = paper_numbers.numbers("topoformer_table_4")
"""Decoders on layered graphs; with 16 samples and beams at 500 nodes, 8 at 1000."""


class OrderingLine(NamedTuple):
    """One method's line: mean and 95 % interval over graphs of the % gap from the reference and of
    the seconds, and how many graphs."""

    method: str
    gap: statistics.MeanInterval
    seconds: statistics.MeanInterval
    graphs: int


def summary(
    rows: Sequence[dict],
    setting: str,
    methods: Sequence[str],
    reference: str,
    *,
    subset: set[str] | None = None,
) -> list[OrderingLine]:
    """A line for each of the methods, on the graphs that it and the reference were run on.

    Args:
      rows: from ``searches.compare``.
      setting: which graphs. methods: their labels, in the order of the lines.
      reference: label of the method to measure gaps from.
      subset: names of graphs to keep, all by default.
    """
    costs = searches.costs_by_graph(rows, setting)
    seconds = searches.costs_by_graph(rows, setting, "seconds")
    known = costs.get(reference, {})
    chosen = known.keys() if subset is None else known.keys() & subset
    lines = []
    for method in methods:
        graphs = [graph for graph in costs.get(method, {}) if graph in chosen]
        if not graphs:
            continue
        gaps = {g: statistics.gap_percent(costs[method][g], np.mean(known[g])) for g in graphs}
        spent = {g: seconds[method][g] for g in graphs}
        intervals = statistics.mean_interval(gaps), statistics.mean_interval(spent)
        lines.append(OrderingLine(method, *intervals, len(graphs)))
    return lines


def with_headroom(rows: Sequence[dict], setting: str) -> set[str]:
    """Names of the graphs of which the worst known peak is HEADROOM percent above the best."""
    known: dict[str, list[float]] = {}
    for by_graph in searches.costs_by_graph(rows, setting).values():
        for graph, costs in by_graph.items():
            known.setdefault(graph, []).extend(costs)
    return {g for g, c in known.items() if statistics.gap_percent(max(c), min(c)) >= HEADROOM}


def paper_key(label: str) -> str:
    """A label without its budgets: "topoformer beam" of "topoformer beam 16"."""
    return " ".join(word for word in label.split() if not word[0].isdecimal())


def text(title: str, lines: Sequence[OrderingLine], paper: PaperCells) -> str:
    """The lines as a table; ``paper`` has the paper's numbers for this setting, if it has any."""
    table = tables.text_table([_row(line, paper.get(paper_key(line.method))) for line in lines])
    return f"{title} ({max(line.graphs for line in lines)} graphs)\n{table}"


def _row(line: OrderingLine, paper: Mapping[str, paper_numbers.Number] | None) -> dict[str, str]:
    return {
        "method": line.method,
        "gap %": line.gap.text(),
        "paper": paper["gap"].text() if paper else "",
        "seconds": line.seconds.text(".3g"),
        "paper s": paper["seconds"].text() if paper else "",
    }

"""Tables 1 to 4 of neural_topological_ordering from rows of a comparison, the paper's beside."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from regal_jax.reporting import statistics, tables
from regal_jax.studies.comparison import searches

HEADROOM = 2.0
"""Percent between the worst and the best known from which on a graph counts as having headroom."""


class Published(NamedTuple):
    """A cell of the paper's tables: mean % gap from approximate DP and mean seconds of a graph, on
    one V100 (depth-first DP on a CPU); half of the gap's 95 % interval, where it is given."""

    gap: float
    seconds: float
    half: float | None = None


PaperTable = Mapping[str, Mapping[str, Published]]


def _by_setting(settings: Sequence[str], cells: Mapping[str, Sequence[tuple]]) -> PaperTable:
    """{setting: {method: cell}} from the lines of a table."""
    return MappingProxyType(
        {
            setting: {method: Published(*line[place]) for method, line in cells.items()}
            for place, setting in enumerate(settings)
        }
    )


PAPER_TABLE_1: PaperTable = _by_setting(
    ("500 nodes", "1000 nodes", "2000 nodes"),
    {
        "approximate_dp": ((0, 264.88), (0, 1561.17), (0, 8828.86)),
        "depth_first_dp": ((5.76, 3600), (3.84, 3600), (2.40, 3600)),
        "random_orders": ((6.86, 1.38), (2.62, 7.13), (0.31, 36.87)),
        "depth_first": ((12.9, 2.45), (7.1, 10.91), (3.57, 51.32)),
        "breadth_first": ((20.94, 2.43), (11.31, 10.87), (6.42, 51.52)),
        "topoformer greedy": ((4.32, 0.6), (0.48, 1.19), (-1.47, 2.44)),
        "topoformer sample": ((3.49, 0.72), (0.03, 1.41), (-1.68, 2.87)),
        "topoformer beam": ((3.21, 2.68), (0.08, 5.92), (-1.66, 14.74)),
    },
)
"""Layered graphs; methods by their label without numbers."""

PAPER_TABLE_2: PaperTable = _by_setting(
    ("200-500 nodes", "500-700 nodes", "700-1000 nodes"),
    {
        "approximate_dp": ((0, 113.54), (0, 517.60), (0, 1131.61)),
        "depth_first_dp": ((62.18, 3600), (102.76, 3600), (50.57, 3600)),
        "random_orders": ((469.34, 0.25), (376.16, 1.24), (116.24, 2.40)),
        "depth_first": ((506.21, 0.70), (394.93, 2.26), (123.21, 4.49)),
        "breadth_first": ((348.77, 0.75), (149.81, 2.31), (-35.55, 4.86)),
        "topoformer greedy": ((-17.57, 0.42), (-51.23, 0.6), (-68.97, 0.83)),
        "topoformer sample": ((-21.53, 0.44), (-40.51, 0.68), (-61.46, 0.97)),
        "topoformer beam": ((-19.5, 1.22), (-57.34, 2.58), (-73.45, 3.86)),
    },
)
"""Real graphs, which aren't public: a fifth of 115."""

PAPER_TABLE_3: PaperTable = _by_setting(
    ("500 nodes", "1000 nodes"),
    {
        "mlp greedy": ((8.31, 0.58, 0.76), (2.95, 1.52, 0.48)),
        "mlp sample": ((4.41, 0.67, 0.50), (0.68, 1.84, 0.35)),
        "mlp beam": ((6.5, 2.47, 0.69), (2.43, 7.62, 0.49)),
        "transformer greedy": ((8.46, 0.69, 0.72), (3.09, 1.3, 0.46)),
        "transformer sample": ((4.72, 0.8, 0.52), (0.85, 1.55, 0.37)),
        "transformer beam": ((6.52, 2.98, 0.72), (2.09, 6.49, 0.47)),
        "gat greedy": ((5.94, 0.49, 0.61), (1.33, 1.24, 0.38)),
        "gat sample": ((4.19, 0.64, 0.56), (0.48, 1.54, 0.36)),
        "gat beam": ((4.22, 2.22, 0.60), (0.60, 5.94, 0.38)),
        "gat_both greedy": ((4.84, 0.63, 0.55), (0.90, 1.37, 0.37)),
        "gat_both sample": ((3.55, 0.80, 0.53), (0.23, 1.67, 0.36)),
        "gat_both beam": ((3.55, 2.89, 0.54), (0.39, 6.50, 0.36)),
        "topoformer_edges greedy": ((4.82, 0.73, 0.55), (0.76, 1.62, 0.36)),
        "topoformer_edges sample": ((3.67, 0.85, 0.52), (0.21, 1.99, 0.36)),
        "topoformer_edges beam": ((3.68, 3.03, 0.57), (0.35, 8.1, 0.37)),
        "topoformer greedy": ((4.31, 1.04, 0.56), (0.47, 1.51, 0.36)),
        "topoformer sample": ((3.35, 1.21, 0.52), (-0.01, 1.8, 0.35)),
        "topoformer beam": ((3.08, 4.15, 0.51), (0.05, 7.4, 0.36)),
    },
)
"""Encoders on layered graphs."""

PAPER_TABLE_4: PaperTable = _by_setting(
    ("500 nodes", "1000 nodes"),
    {
        "gnn_ar greedy": ((6.13, 1.66, 0.58), (1.84, 3.34, 0.39)),
        "gnn_ar sample": ((4.71, 1.76, 0.56), (1.38, 3.59, 0.37)),
        "gnn_ar beam": ((4.87, 4.01, 0.61), (2.09, 7.90, 0.41)),
        "topoformer_ar greedy": ((4.43, 1.53, 0.55), (0.53, 3.05, 0.35)),
        "topoformer_ar sample": ((3.33, 1.7, 0.51), (0.05, 3.38, 0.35)),
        "topoformer_ar beam": ((3.14, 4.27, 0.52), (0.13, 7.90, 0.36)),
        "topoformer_nar greedy": ((4.31, 1.04, 0.56), (0.47, 1.53, 0.36)),
        "topoformer_nar sample": ((3.35, 1.21, 0.52), (0.09, 1.78, 0.35)),
        "topoformer_nar beam": ((3.08, 4.15, 0.51), (0.2, 5.57, 0.36)),
    },
)
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


def text(title: str, lines: Sequence[OrderingLine], paper: Mapping[str, Published]) -> str:
    """The lines as a table; ``paper`` has the paper's numbers for this setting, if it has any."""
    table = tables.text_table([_row(line, paper.get(paper_key(line.method))) for line in lines])
    return f"{title} ({max(line.graphs for line in lines)} graphs)\n{table}"


def _row(line: OrderingLine, paper: Published | None) -> dict[str, str]:
    half = "" if paper is None or paper.half is None else f" ± {paper.half:.2f}"
    return {
        "method": line.method,
        "gap %": line.gap.text(),
        "paper": f"{paper.gap:.2f}{half}" if paper else "",
        "seconds": line.seconds.text(".3g"),
        "paper s": f"{paper.seconds:.2f}" if paper else "",
    }

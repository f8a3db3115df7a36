"""Tables 1 to 4 of neural_topological_ordering from rows of a comparison, the paper's beside."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from regal_jax.errors import RegalError
from regal_jax.reporting import statistics, tables
from regal_jax.studies import paper_numbers
from regal_jax.studies.comparison import searches
from regal_jax.studies.comparison.paired import paired_table

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


def page(paper: PaperTable, rows: Sequence[dict]) -> str:
    """Percent above approximate DP by setting, the paper's in brackets, and seconds, in Markdown.

    Of graphs with headroom alone, where some have none.
    """
    reference = reference_of(rows)
    by_method: dict[str, dict[str, str]] = {}
    spent: dict[str, dict[str, str]] = {}
    for setting in dict.fromkeys(row["setting"] for row in rows):
        labels = list(dict.fromkeys(row["method"] for row in rows if row["setting"] == setting))
        subset = with_headroom(rows, setting)
        for line in summary(rows, setting, labels, reference, subset=subset):
            cells = by_method.setdefault(line.method, {"method": f"`{line.method}`"})
            known = paper.get(setting, {}).get(paper_key(line.method))
            published = f" ({known['gap'].text()})" if known else ""
            cells[f"{setting} ({len(subset)})"] = line.gap.text(".1f") + published
            seconds = f"{line.seconds.mean:.2g}"
            spent.setdefault(line.method, {})[f"s, {setting.partition(' ')[0]}"] = seconds
    table = [cells | spent[method] for method, cells in by_method.items()]
    caption = (
        f"Percent above `{reference}`, mean and 95 % interval over graphs with {HEADROOM:g} % of"
        " headroom,\nwhose number stands beside the setting; in brackets the paper's, on its graphs"
        " and above K = 100,000;\nmean seconds of a graph."
    )
    return f"{caption}\n\n{tables.markdown_table(table)}\n"


def page_of_pairs(rows: Sequence[dict]) -> str:
    """`next_op` against others with as many orders, in Markdown."""
    alike = [row for row in rows if not {"beam", "guided"} & set(row["method"].split())]
    caption = (
        "How much less orders of `next_op` need than others' of as many: 100 times the mean"
        "\nlogarithm of ratios, paired by graph, with its 95 % interval."
    )
    return f"{caption}\n\n{tables.markdown_table(paired_table(alike, 'next_op'))}\n"


def reference_of(rows: Sequence[dict]) -> str:
    """The label of approximate_dp's rows. RegalError without any, or of several."""
    found = {row["method"] for row in rows if row["method"].startswith("approximate_dp")}
    if len(found) != 1:
        raise RegalError(f"results: rows of {len(found)} approximate_dp; gaps are from one")
    return found.pop()

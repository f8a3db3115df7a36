"""Tables 1 to 3 of gflownet_robust_scheduling from rows of results, the paper's numbers beside.

Rows have the columns of ``reporting.results`` and "setting". Their metrics are those of OWN, and
those of ``on_targets``: by the name of a target the speedup of the method's best candidate there,
the graph's nominal durations (without the target's noise) over the time on the target.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from regal_jax.errors import OptionError
from regal_jax.reporting import statistics, tables
from regal_jax.studies import paper_numbers
from regal_jax.studies.comparison.candidates import SPREAD
from regal_jax.studies.paper_numbers import Number

Row = Mapping[str, Any]

SPEEDUPS = MappingProxyType({"proxy_1": "Proxy 1", "proxy_100": "Proxy 100"})
"""Speedup on the proxy: of the best candidate, and the mean of all; with the columns' headings."""

DIVERSITY = MappingProxyType({"ged": "GED [%]", "d_inv": "d_inv", "d_sen": "d_sen"})
"""Of the candidates; see ``reporting.diversity`` for what they are and their units."""

OWN = (*SPEEDUPS, *DIVERSITY, "candidates", "seconds")
"""Metrics that are not the name of a target; the last two, how many different candidates there were
and how long sampling took, are in no table of the paper."""


TRIALS = "regal 5000 trials"
"""What ``auto`` is on a target, by its label."""

AT_PRICES = "regal 5000"
"""A sweep of prices by rules that a network chooses."""

OTHERS_AT_PRICES = ("dispatch 5000", "price_sweep 5000", "price_sweep 250000", "gflownet")
"""Its control, sweeps by list heuristics, and a sampler without prices."""

AT_BUDGETS = (
    ("regal 500", "dispatch 500"),
    ("regal 1000", "dispatch 1000"),
    ("regal 5000", "dispatch 5000"),
    ("regal 500", "price_sweep 5000"),
    ("gflownet", "list_sampling"),
)
"""What is compared on all test graphs of the zoo, each with its control."""

PaperTable = Mapping[str, Mapping[str, Number]]
"""Cells by method and metric: means and, where they are given, standard deviations; that these are
over seeds is what the text suggests, without saying so."""


def _paper_table(number: int) -> PaperTable:
    (methods,) = paper_numbers.numbers(f"gflownet_table_{number}").values()
    return methods


PAPER_TABLE_1 = _paper_table(1)
"""One real graph of about 78 ops, which isn't public. Its column "Proxy" is taken as the best
candidate's; the paper doesn't say whether it is the mean of all."""

PAPER_TABLE_2 = _paper_table(2)
"""50 random graphs of 50 ops."""

PAPER_TABLE_3 = _paper_table(3)
"""Four real graphs that training hasn't seen; they aren't public."""


class Line(NamedTuple):
    """One method's line.

    Attributes:
      method: its label.
      cells: by metric, mean and spread.
      size: how many seeds (``over_seeds``) or graphs (``over_graphs``) that it was run on.
    """

    method: str
    cells: Mapping[str, Number | statistics.MeanInterval]
    size: int


class Paired(NamedTuple):
    """How one method does against another where both were run.

    Attributes:
      other: the label of the other.
      metric: what is compared; higher is better.
      difference: the method's value less the other's: mean and 95 % interval.
      wins, ties: percent of the pairs in which the method's is higher, and the same.
      pairs: how many, of a graph and seed.
    """

    other: str
    metric: str
    difference: statistics.MeanInterval
    wins: float
    ties: float
    pairs: int


def targets(rows: Iterable[Row]) -> list[str]:
    """The targets in the rows, in the order in which they appear."""
    return [m for m in dict.fromkeys(row["metric"] for row in rows) if _is_target(m)]


def _is_target(metric: str) -> bool:
    return metric not in OWN and not metric.endswith(tuple(f" {spread}" for spread in SPREAD))


def over_seeds(rows: Sequence[Row], setting: str) -> list[Line]:
    """Table 1: a line a method, with mean and standard deviation over the seeds of one graph.

    The deviation is the sample's (divided by seeds less one), 0 for a single seed. Raises
    OptionError if the setting has several graphs.
    """
    graphs = {row["graph"] for row in rows if row["setting"] == setting}
    if len(graphs) > 1:
        raise OptionError(f"{setting}: has {len(graphs)} graphs; a spread over seeds is of one")
    return [
        Line(
            method,
            {metric: _spread(*by_graph.values()) for metric, by_graph in cells.items()},
            max(len(seeds) for by_graph in cells.values() for seeds in by_graph.values()),
        )
        for method, cells in _values(rows, setting).items()
    ]


def over_graphs(rows: Sequence[Row], setting: str) -> list[Line]:
    """Tables 2 and 3: a line a method, with the mean over graphs and its 95 % interval.

    Seeds are averaged within a graph first. The interval is over graphs, the paper's spread over
    seeds. Methods may have been run on different graphs: see ``Line.size``, and ``paired``.
    """
    return [
        Line(
            method,
            {
                metric: statistics.mean_interval(
                    {graph: list(seeds.values()) for graph, seeds in by_graph.items()}
                )
                for metric, by_graph in cells.items()
            },
            max(len(by_graph) for by_graph in cells.values()),
        )
        for method, cells in _values(rows, setting).items()
    ]


def paired(
    rows: Sequence[Row], setting: str, method: str, metrics: Sequence[str] | None = None
) -> list[Paired]:
    """A method against each of the others, by metric and other method.

    The two are compared graph by graph and seed by seed; one that was run with a single seed on a
    graph (a rule without randomness) is compared with all seeds of the other. The interval is over
    graphs, seeds averaged first; over seeds if there is one graph.

    Args:
      rows, setting: the rows, and which of them.
      method: label of the method.
      metrics: the higher the better; by default the targets in the rows.
    """
    values = _values(rows, setting)
    found = []
    for metric in targets(rows) if metrics is None else metrics:
        ours = values.get(method, {}).get(metric, {})
        for other, cells in values.items():
            theirs = cells.get(metric, {})
            differences = {
                graph: _differences(ours[graph], theirs[graph]) for graph in ours if graph in theirs
            }
            differences = {graph: some for graph, some in differences.items() if some}
            if other != method and differences:
                found.append(_paired(other, metric, differences))
    return found


def text(title: str, lines: Sequence[Line], paper: PaperTable = MappingProxyType({})) -> str:
    """Lines as a table: of each method ours, then the paper's; the paper's other methods last."""
    metrics = _in_order(metric for line in lines for metric in line.cells)
    ours = {line.method for line in lines}
    table = []
    for line in lines:
        table.append(_own_row(line, metrics))
        if line.method in paper:
            table.append(_paper_row(line.method, paper, metrics))
    table += [_paper_row(method, paper, metrics) for method in paper if method not in ours]
    return f"{title}\n{tables.text_table(table)}"


def paired_text(title: str, lines: Sequence[Paired]) -> str:
    """Comparisons of a method with others as a table."""
    return f"{title}\n{tables.text_table([_comparison_row(line) for line in lines])}"


def page(rows: Sequence[Row]) -> str:
    """Table 3 of rows, the paper's numbers beside, in Markdown; table 1, of those of one graph."""
    one = len({row["graph"] for row in rows}) == 1
    summary, paper = (over_seeds, PAPER_TABLE_1) if one else (over_graphs, PAPER_TABLE_3)
    spread = "standard deviation over seeds" if one else "95 % interval over graphs"
    wide = ("proxy_1", *(["proxy_100"] if one else []), *targets(rows), "ged")
    lines = summary(rows, _setting(rows))
    table = [{"method": line.method} | _row(line.cells, wide) for line in lines]
    table += [_paper_row(method, paper, wide) for method in paper]
    caption = (
        f"{_asked(rows)}\nSpeedups of the best on the proxy and on each target, mean and {spread}."
    )
    return f"{caption}\n\n{tables.markdown_table(table)}\n"


def page_of_spread(rows: Sequence[Row]) -> str:
    """What all candidates of a method have on each target, in Markdown."""
    table = []
    for line in over_graphs(rows, _setting(rows)):
        cells = {
            _heading(name): "; ".join(f"{line.cells[f'{name} {s}'][0]:.2f}" for s in SPREAD)
            for name in targets(rows)
            if f"{name} {SPREAD[0]}" in line.cells
        }
        table += [{"method": line.method} | cells] if cells else []
    caption = f"{_asked(rows)}\nSpeedups of all on each target: mean; 95 % quantile."
    return f"{caption}\n\n{tables.markdown_table(_filled(table))}\n"


def page_of_sizes(rows: Sequence[Row], method: str, control: str) -> str:
    """Speedups by target and spread of sizes (``sizes``), a table a setting, in Markdown; last what
    a method has more than its control."""
    parts = []
    for setting in dict.fromkeys(row["setting"] for row in rows):
        some = [row for row in rows if row["setting"] == setting]
        one = len({row["graph"] for row in some}) == 1
        lines = (over_seeds if one else over_graphs)(some, setting)
        table = [{"method": line.method} | _row(line.cells, targets(some)) for line in lines]
        more = _less(some, setting, method, control, "+.2f")
        table.append({"method": f"{method} less {control}"} | more)
        parts += [f"{setting.capitalize()}: {_asked(some)}", tables.markdown_table(table)]
    return "\n\n".join(parts) + "\n"


def page_of_random(rows: Sequence[Row]) -> str:
    """Table 2 of rows, the paper's numbers beside, and GFlowNet's differences, in Markdown."""
    every = "all families"
    rows = [{**row, "setting": every} for row in rows]
    wide = (*SPEEDUPS, *DIVERSITY)
    table = [{"method": line.method} | _row(line.cells, wide) for line in over_graphs(rows, every)]
    table += [_paper_row(method, PAPER_TABLE_2, wide) for method in PAPER_TABLE_2]
    pairs = page_of_pairs("gflownet", rows, metrics=tuple(SPEEDUPS))
    return f"{_asked(rows)}\n\n{tables.markdown_table(table)}\n\n{pairs}"


def page_of_means(rows: Sequence[Row]) -> str:
    """All that rows say of one graph, or of trainings, a line a method, in Markdown."""
    lines = over_seeds(rows, setting := _setting(rows))
    table = [{"method": line.method} | _row(line.cells, tuple(line.cells)) for line in lines]
    spread = f"mean and standard deviation over {lines[0].size} seeds"
    of = spread if lines[0].size > 1 else str(rows[0]["graph"])
    return f"{setting.capitalize()}; {of}.\n\n{tables.markdown_table(_filled(table))}\n"


def page_of_pairs(
    method: str,
    rows: Sequence[Row],
    others: Sequence[str] = (),
    metrics: Sequence[str] | None = None,
) -> str:
    """A method's difference from others, by default all, on each target or by other metrics, in
    Markdown."""
    table: dict[str, dict[str, str]] = {}
    for line in paired(rows, _setting(rows), method, metrics):
        if others and line.other not in others:
            continue
        cells = table.setdefault(line.other, {"against": line.other})
        cells[_heading(line.metric)] = line.difference.text("+.2f")
    caption = (
        f"Speedups of `{method}` less those of others, paired by graph and seed, mean and 95 %"
        " interval\nover graphs."
    )
    return f"{caption}\n\n{tables.markdown_table(_filled(list(table.values())))}\n"


def page_of_controls(pairs: Sequence[tuple[str, str]], rows: Sequence[Row]) -> str:
    """Methods' differences from their controls, on each target, in Markdown."""
    table = [
        {"method": method, "less": control} | _less(rows, _setting(rows), method, control, "+.3f")
        for method, control in pairs
    ]
    caption = (
        f"{_asked(rows)}\nSpeedups, paired by graph and seed, mean and 95 % interval over graphs."
    )
    return f"{caption}\n\n{tables.markdown_table(table)}\n"


def _less(
    rows: Sequence[Row], setting: str, method: str, control: str, form: str
) -> dict[str, str]:
    """Cells of what a method has more than its control, on each target."""
    lines = [line for line in paired(rows, setting, method) if line.other == control]
    return {_heading(line.metric): line.difference.text(form) for line in lines}


def _setting(rows: Sequence[Row]) -> str:
    (setting,) = {row["setting"] for row in rows}
    return setting


def _asked(rows: Sequence[Row]) -> str:
    """What the rows have in common."""
    ((count, devices, draws),) = {
        (row["candidates"], row["devices"], row["noise_draws"]) for row in rows
    }
    graphs, seeds = (len({row[name] for row in rows}) for name in ("graph", "seed"))
    return (
        f"{tables.number_of(graphs, 'graph')}, {count} candidates of each, {devices} devices,"
        f" {tables.number_of(int(draws), 'draw')} of the noise, {tables.number_of(seeds, 'seed')}."
    )


def _filled(table: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Lines that all have the columns of the longest."""
    columns = max(table, key=len)
    return [{name: line.get(name, "") for name in columns} for line in table]


def _values(rows: Iterable[Row], setting: str) -> dict[str, dict[str, dict[str, dict[int, float]]]]:
    """{method: {metric: {graph: {seed: value}}}} of one setting."""
    values: dict = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    for row in rows:
        if row["setting"] == setting:
            seeds = values[row["method"]][row["metric"]][row["graph"]]
            seeds[int(row["seed"])] = float(row["value"])
    return values


def _spread(seeds: Mapping[int, float]) -> Number:
    """Mean and standard deviation."""
    values = np.array(list(seeds.values()))
    return Number(float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0)


def _differences(ours: Mapping[int, float], theirs: Mapping[int, float]) -> dict[int, float]:
    """By seed, ours less theirs."""
    if len(ours) == 1:
        ours = dict.fromkeys(theirs, *ours.values())
    if len(theirs) == 1:
        theirs = dict.fromkeys(ours, *theirs.values())
    return {seed: value - theirs[seed] for seed, value in ours.items() if seed in theirs}


def _paired(other: str, metric: str, by_graph: Mapping[str, Mapping[int, float]]) -> Paired:
    every = np.array([value for seeds in by_graph.values() for value in seeds.values()])
    units = {graph: list(seeds.values()) for graph, seeds in by_graph.items()}
    if len(units) == 1:
        units = {str(place): [value] for place, value in enumerate(every)}
    interval = statistics.mean_interval(units)
    wins, ties = 100.0 * float(np.mean(every > 0)), 100.0 * float(np.mean(every == 0))
    return Paired(other, metric, interval, wins, ties, len(every))


def _in_order(metrics: Iterable[str]) -> list[str]:
    """The paper's order of columns: proxy, targets, diversity."""
    found = list(dict.fromkeys(metrics))
    by_target = [metric for metric in found if _is_target(metric)]
    return [
        *(metric for metric in SPEEDUPS if metric in found),
        *by_target,
        *(metric for metric in DIVERSITY if metric in found),
    ]


def _row(
    cells: Mapping[str, Number | statistics.MeanInterval], metrics: Sequence[str]
) -> dict[str, str]:
    return {_heading(metric): _cell(cells.get(metric)) for metric in metrics}


def _own_row(line: Line, metrics: Sequence[str]) -> dict[str, str]:
    over_seeds = any(isinstance(cell, Number) for cell in line.cells.values())
    count = {"seeds" if over_seeds else "graphs": str(line.size)}
    return {"method": line.method} | count | _row(line.cells, metrics)


def _paper_row(method: str, paper: PaperTable, metrics: Sequence[str]) -> dict[str, str]:
    return {"method": f"{method} (paper)"} | _row(paper[method], metrics)


def _comparison_row(line: Paired) -> dict[str, str]:
    return {
        "against": line.other,
        "on": _heading(line.metric),
        "difference": line.difference.text("+.3f"),
        "wins %": f"{line.wins:.0f}",
        "ties %": f"{line.ties:.0f}",
        "pairs": str(line.pairs),
    }


def _heading(metric: str) -> str:
    known = SPEEDUPS | DIVERSITY
    return known.get(metric, metric.replace("_", " ").capitalize())


def _cell(value: Number | statistics.MeanInterval | None) -> str:
    return "" if value is None else value.text()

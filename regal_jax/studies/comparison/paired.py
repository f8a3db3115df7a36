"""One method against each other one of the same budget, paired by graph."""

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from regal_jax.datasets.zoo import splits
from regal_jax.datasets.zoo.card import card
from regal_jax.reporting import statistics
from regal_jax.reporting.results import Row
from regal_jax.studies.comparison import searches


def paired_table(
    rows: Sequence[Row], method: str, kin: Callable[[str], str] = str
) -> list[dict[str, str]]:
    """How much less a method's schedules cost than those of other methods, by setting and budget.

    Percent are 100 times the mean over graphs of log(cost of the other / cost of the method), costs
    being means over seeds, with the 95 % interval over graphs; better and worse are numbers of
    graphs. Methods without a budget are held against the method's first schedule. Labels are those
    of ``regal.tables``: "regal 5000", "etf". Graphs that ``kin`` gives one name count together, as
    one in means and intervals.
    """
    table = []
    for setting in dict.fromkeys(row["setting"] for row in rows):
        costs = searches.costs_by_graph(rows, setting)
        for own in sorted((one for one in costs if _method(one) == method), key=_budget):
            others = [one for one in costs if one != own and _budget(one) == _budget(own)]
            table += [_line(setting, own, other, costs, kin) for other in others]
    return table


def architectures() -> Callable[[str], str]:
    """The architecture of a graph of the zoo, by the name of one of its variants."""
    known = {row["name"]: splits.architecture(row["family"]) for row in card()}
    return lambda graph: known[graph.partition("#")[0]]


def _line(
    setting: str, own: str, other: str, costs: Mapping[str, dict], kin: Callable[[str], str]
) -> dict[str, str]:
    gains: dict[str, list[float]] = {}
    for graph in (graph for graph in costs[own] if graph in costs[other]):
        gain = 100.0 * np.log(np.mean(costs[other][graph]) / np.mean(costs[own][graph]))
        gains.setdefault(kin(graph), []).append(float(gain))
    every = np.concatenate(list(gains.values()))
    return {
        "setting": setting,
        "evaluations": f"{_budget(own):,}",
        "over": f"`{_method(other)}`",
        "less, %": statistics.mean_interval(gains).text(),
        "better, worse, of": f"{(every > 0).sum()}, {(every < 0).sum()}, {len(every)}",
    }


def _method(label: str) -> str:
    """The words before the decoding and the budget: "noisy_rule backwards" of one with "S(16)"."""
    return re.split(r" (?=greedy|sample|beam|guided|S\(|\d)", label)[0]


def _budget(label: str) -> int:
    """Of "regal 5000" and "one_shot S(256)" the number, of "etf" and "one_shot greedy" 1."""
    return int((re.findall(r"\d+", label.partition(" ")[2]) or ["1"])[0])

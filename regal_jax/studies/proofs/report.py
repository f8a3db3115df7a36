"""Tables of proofs: how many schedules are optimal, and the graphs that are still open."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from regal_jax.datasets.zoo.card import card
from regal_jax.reporting import statistics, tables
from regal_jax.reporting.results import Row

MOST_OPEN = 25
"""Open graphs that are listed."""


class Answer(NamedTuple):
    """What is known of one graph."""

    graph: str
    ops: int
    cost: float
    bound: float
    seconds: float

    @property
    def gap(self) -> float:
        """Percent of the bound."""
        return float(statistics.gap_percent(self.cost, self.bound))


def proven(rows: Sequence[Row]) -> str:
    """A line for each setting, method and split, in Markdown: "all" is every split together."""
    splits = {row["name"]: row["split"] for row in card()}
    lines = []
    for (setting, method), answers in _answers(rows).items():
        of_split: dict[str, list[Answer]] = {"all": answers}
        for answer in answers:
            if split := splits.get(answer.graph.split("@")[0]):
                of_split.setdefault(split, []).append(answer)
        for split in ("all", "train", "valid", "test"):
            if some := of_split.get(split):
                first = {"setting": setting, "method": f"`{method}`", "split": split}
                lines.append(first | _line(some))
    return tables.markdown_table(lines) + "\n"


def _line(answers: Sequence[Answer]) -> dict[str, str]:
    gaps = np.array([answer.gap for answer in answers])
    by_graph = {answer.graph: answer.gap for answer in answers}
    return {
        "graphs": f"{len(answers):,}",
        "proven optimal, %": f"{100 * np.mean(gaps <= 0):.1f}",
        "gap, mean %": statistics.mean_interval(by_graph).text(),
        "gap, median %": f"{np.median(gaps):.2f}",
        "gap, 95th percentile %": f"{np.quantile(gaps, 0.95):.2f}",
        "seconds, mean": f"{np.mean([answer.seconds for answer in answers]):.1f}",
    }


def still_open(rows: Sequence[Row]) -> str:
    """The graphs whose best schedule of all methods isn't proven, hardest first, in Markdown."""
    lines = []
    for setting, answers in _best(rows).items():
        unproven = sorted((a for a in answers if a.gap > 0), key=lambda a: -a.gap)
        lines += [
            {
                "setting": setting,
                "graph": f"`{answer.graph}`",
                "ops": f"{answer.ops:,}",
                "peak, bytes": f"{answer.cost:,.0f}",
                "lower bound": f"{answer.bound:,.0f}",
                "gap, %": f"{answer.gap:.3g}",
            }
            for answer in unproven[:MOST_OPEN]
        ]
    return tables.markdown_table(lines) + "\n" if lines else "None.\n"


def page(rows: Sequence[Row]) -> str:
    """Both tables."""
    return f"{proven(rows)}\nStill open, at most {MOST_OPEN} a setting:\n\n{still_open(rows)}"


def best_known(rows: Sequence[Row], setting: str) -> Mapping[str, Answer]:
    """By graph, of one setting, by all methods."""
    return {answer.graph: answer for answer in _best(rows).get(setting, ())}


def _best(rows: Sequence[Row]) -> Mapping[str, list[Answer]]:
    """By setting: each graph's least cost and largest bound."""
    best: dict[str, dict[str, Answer]] = {}
    for (setting, _), answers in _answers(rows).items():
        known = best.setdefault(setting, {})
        for answer in answers:
            other = known.get(answer.graph, answer)
            cost, bound = min(answer.cost, other.cost), max(answer.bound, other.bound)
            known[answer.graph] = other._replace(cost=cost, bound=bound)
    return {setting: list(answers.values()) for setting, answers in best.items()}


def _answers(rows: Sequence[Row]) -> Mapping[tuple[str, str], list[Answer]]:
    """By setting and method, the graphs in the order of the rows."""
    values: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        graph = values.setdefault((row["setting"], row["method"]), {}).setdefault(row["graph"], {})
        graph |= {"ops": int(row["ops"]), row["metric"]: row["value"]}
    return {
        key: [
            Answer(name, g["ops"], float(g["cost"]), float(g["lower_bound"]), float(g["seconds"]))
            for name, g in of_graph.items()
        ]
        for key, of_graph in values.items()
    }

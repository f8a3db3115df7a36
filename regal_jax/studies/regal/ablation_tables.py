"""REGAL's table 3 and what figures 7 and 8 show, from rows of results."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regal_jax.reporting import statistics, tables
from regal_jax.studies import paper_numbers

ACTIONS = ("placement", "scheduling", "elite_bias")

PAPER_TABLE_3 = paper_numbers.values("regal_table_3", "improvement")
"""% improvement over BRKGA 5K by set of graphs, then subset of ACTIONS."""

Interval = statistics.MeanInterval
Row = Mapping[str, Any]


def table_3(improvements: Mapping[str, Mapping[str, Interval]]) -> str:
    """Table 3: by subset of actions and set of graphs, ours and the paper's improvement."""
    return tables.text_table([_subset_row(*item) for item in improvements.items()])


def usage_by_group(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Figure 7: a row a group of actions, with its share of all ops of all graphs in percent and
    the mean relative memory of the ops it is applied to.

    ``rows`` are results with the columns placement and scheduling, and the metrics "ops" (how many)
    and "relative memory" (their sum).
    """
    sums: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for row in rows:
        sums[row["placement"], row["scheduling"]][row["metric"]] += float(row["value"])
    total = sum(group["ops"] for group in sums.values())
    return [
        {
            "placement": placement,
            "scheduling": scheduling,
            "frequency %": 100.0 * group["ops"] / total,
            "relative memory": group["relative memory"] / group["ops"] if group["ops"] else None,
        }
        for (placement, scheduling), group in sums.items()
    ]


def spread_table(values: Mapping[str, Sequence[float]], label: str) -> str:
    """Figure 8 as a table: how the runs of each label are spread."""
    return tables.text_table([_spread_row(label, *item) for item in values.items()])


def _subset_row(name: str, by_set: Mapping[str, Interval]) -> dict[str, str]:
    parts = name.split("+")
    row = {action.replace("_", " "): "yes" if action in parts else "no" for action in ACTIONS}
    for number, (graphs, value) in enumerate(by_set.items()):
        row[f"{graphs} %"] = value.text()
        paper = PAPER_TABLE_3.get(graphs, {}).get(name)
        if paper is not None:
            row["paper" + " " * number] = f"{paper:.2f}"
    return row


def _spread_row(label: str, name: str, values: Sequence[float]) -> dict[str, str]:
    low, lower, median, upper, high = np.percentile(values, [0, 25, 50, 75, 100]).tolist()
    numbers = {"max": high, "upper quartile": upper, "median": median, "lower quartile": lower}
    row = {label: name, "runs": str(len(values))}
    return row | {key: f"{value:.2f}" for key, value in (numbers | {"min": low}).items()}

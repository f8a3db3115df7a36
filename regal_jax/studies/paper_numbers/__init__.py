"""Numbers that papers published, from the CSV files beside: one a table.

A row has the paper's title, the table and the section that it is in (which stands for the page:
the copies that were read have none), our name of the method, the setting, the metric, the value
and its spread, where one is given.
"""

import csv
from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple

COLUMNS = ("paper", "table", "section", "method", "setting", "metric", "value", "spread")


class Number(NamedTuple):
    """A published number, and its deviation or half interval where the paper has one."""

    value: float
    spread: float | None = None

    def text(self) -> str:
        """3.08 ± 0.51, or 3.08"""
        return f"{self.value:.2f}" + ("" if self.spread is None else f" ± {self.spread:.2f}")


Numbers = Mapping[str, Mapping[str, Mapping[str, Number]]]
"""By setting, method and metric, in the table's order."""


def numbers(name: str) -> Numbers:
    """The numbers of ``NAME.csv``."""
    file = resources.files(__name__) / f"{name}.csv"
    found: dict[str, dict[str, dict[str, Number]]] = {}
    for row in csv.DictReader(file.read_text().splitlines()):
        methods = found.setdefault(row["setting"], {}).setdefault(row["method"], {})
        spread = float(row["spread"]) if row["spread"] else None
        methods[row["metric"]] = Number(float(row["value"]), spread)
    return found


def values(name: str, metric: str) -> dict[str, dict[str, float]]:
    """{setting: {method: value}} of one metric."""
    return {
        setting: {method: cells[metric].value for method, cells in methods.items()}
        for setting, methods in numbers(name).items()
    }

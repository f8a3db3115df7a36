"""Tables of the model zoo from its card: what it is made of, and what there is to gain."""

import statistics
from collections import Counter
from collections.abc import Sequence

from regal_jax.reporting.tables import human_percent
from regal_jax.studies.zoo import card
from regal_jax.studies.zoo.card import SETTINGS, Row

WORTHWHILE = 2.0
"""Percent of headroom from which a graph counts as worth scheduling."""


def headroom_table(rows: Sequence[Row]) -> list[dict[str, str]]:
    """A line a platform setting: how much can be gained."""
    return [_headroom_line(rows, setting) for setting in SETTINGS]


def _headroom_line(rows: Sequence[Row], setting: str) -> dict[str, str]:
    values = sorted(v for row in rows if (v := row[f"headroom_{setting}"]) is not None)
    shown = ["–"] * 4
    if values:
        enough = 100 * sum(value >= WORTHWHILE for value in values) / len(values)
        high = values[(9 * (len(values) - 1)) // 10]
        numbers = (enough, statistics.median(values), high, values[-1])
        shown = [human_percent(number) for number in numbers]
    columns = (f"≥ {WORTHWHILE:g} % headroom", "median", "90th percentile", "largest")
    line = {"setting": SETTINGS[setting], "measured": f"{len(values):,}"}
    return line | dict(zip(columns, shown, strict=True))


def source_table(rows: Sequence[Row]) -> list[dict[str, str]]:
    """How many graphs a source gives in each mode, with totals."""
    count = Counter((card.package(row["source"]), row["mode"]) for row in rows)
    sources, modes = Counter[str](), Counter[str]()
    for (source, mode), number in count.items():
        sources[source] += number
        modes[mode] += number

    def line(label: str, numbers: Sequence[int], total: int) -> dict[str, str]:
        shown = [f"{number:,}" if number else "" for number in numbers]
        return {"source": label} | dict(zip(columns, shown, strict=True)) | {"all": f"{total:,}"}

    columns = [mode for mode, _ in _ranked(modes)]
    lines = [
        line(source, [count[source, mode] for mode in columns], total)
        for source, total in _ranked(sources)
    ]
    return [*lines, line("all", [modes[mode] for mode in columns], len(rows))]


def _ranked(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))

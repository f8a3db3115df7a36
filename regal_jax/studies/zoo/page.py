"""The corpus of graphs as one HTML page: what there is, what it looks like, what is to be gained.

The page needs no network: styles, script and data stand in the file.
"""

import os
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from regal_jax.errors import OptionError
from regal_jax.reporting import html_page
from regal_jax.reporting.tables import human_percent
from regal_jax.studies.zoo import card
from regal_jax.studies.zoo.card import SETTINGS, Row

WORTHWHILE = 2.0
"""Percent of headroom from which a graph counts as worth scheduling."""


def write_page(
    rows: Iterable[Mapping[str, Any]], path: str | os.PathLike, *, title: str, notes: str = ""
) -> None:
    """Writes the page of a corpus, atomically; the same bytes for the same arguments.

    Args:
      rows: the rows of a card, a graph each (see ``card``); numbers may be text.
      path: the .html file to write.
      title: the heading, plain text.
      notes: plain text below it; blank lines separate paragraphs.

    Raises:
      OptionError: without rows. RegalError: for a malformed row, or where the place can't be
      written.
    """
    checked = card.check_rows(rows)
    if not checked:
        raise OptionError("a page of graphs needs at least one row")
    values = {
        "title": title,
        "notes": html_page.paragraphs(notes),
        "headlines": _headlines(checked),
        "headroom": _headroom_table(checked),
        "sources": _source_table(checked),
        "data": _page_data(checked),
    }
    html_page.write_page(__package__, values, path)


def _headlines(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """The numbers at the top: (label, value, detail)."""
    ops = [row["ops"] for row in rows]
    packages = {card.package(row["source"]) for row in rows}
    median = statistics.median(ops)
    return [
        ("graphs", f"{len(rows):,}", f"{sum(ops):,} ops in all"),
        ("families", f"{len({row['family'] for row in rows}):,}", "architectures"),
        ("sources", f"{len(packages):,}", f"{len({row['source'] for row in rows}):,} variants"),
        ("ops in a graph", f"{min(ops):,} – {max(ops):,}", f"median {median:,.0f}"),
        ("worth scheduling", *_share(rows, _worthwhile, f"≥ {WORTHWHILE:g} % in any setting")),
        ("trivial", *_share(rows, _trivial, "program order at its bound, one device")),
    ]


def _share(rows: Sequence[Row], test, meaning: str) -> tuple[str, str]:
    """(percentage of the rows with an answer for which it is yes, how it is to be read)."""
    answers = [answer for row in rows if (answer := test(row)) is not None]
    if not answers:
        return "–", f"{meaning}; none measured"
    return human_percent(100 * sum(answers) / len(answers)), f"{meaning}, of {len(answers):,}"


def _worthwhile(row: Row) -> bool | None:
    """Whether any setting leaves headroom; None if none was measured."""
    measured = [row[f"headroom_{x}"] for x in SETTINGS if row[f"headroom_{x}"] is not None]
    return max(measured) >= WORTHWHILE if measured else None


def _trivial(row: Row) -> bool | None:
    """Whether there is nothing to gain on one device, the simplest setting; None if unmeasured."""
    return _at_bound(row, "program", "d1")


def _at_bound(row: Row, measure: str, setting: str) -> bool | None:
    value, bound = row[f"{measure}_{setting}"], row[f"bound_{setting}"]
    return None if value is None or bound is None else value <= bound


def _headroom_table(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """(header, a line a setting): how much can be gained, and how hard it is."""
    header = ["setting", "measured", f"≥ {WORTHWHILE:g} % headroom", "median", "90th percentile"]
    header += ["largest", "program order at bound", "cheap rule at bound", "best at bound"]
    return header, [_headroom_line(rows, setting) for setting in SETTINGS]


def _headroom_line(rows: Sequence[Row], setting: str) -> list[str]:
    values = sorted(v for row in rows if (v := row[f"headroom_{setting}"]) is not None)
    if not values:
        return [SETTINGS[setting], "0", *["–"] * 7]
    enough = 100 * sum(value >= WORTHWHILE for value in values) / len(values)
    shown = (enough, statistics.median(values), values[(9 * (len(values) - 1)) // 10], values[-1])
    line = [SETTINGS[setting], f"{len(values):,}", *map(human_percent, shown)]
    for measure in ("program", "cheap", "best"):
        line.append(_share(rows, lambda row, m=measure: _at_bound(row, m, setting), "")[0])
    return line


def _source_table(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """(header, lines): how many graphs a source gives in each mode, with totals."""
    count = Counter((card.package(row["source"]), row["mode"]) for row in rows)
    sources, modes = Counter[str](), Counter[str]()
    for (source, mode), number in count.items():
        sources[source] += number
        modes[mode] += number
    columns = [mode for mode, _ in _ranked(modes)]
    lines = [
        [source, *(_blank_zero(count[source, mode]) for mode in columns), f"{total:,}"]
        for source, total in _ranked(sources)
    ]
    lines.append(["all", *(f"{modes[mode]:,}" for mode in columns), f"{len(rows):,}"])
    return ["source", *(mode or "no mode" for mode in columns), "all"], lines


def _ranked(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _blank_zero(number: int) -> str:
    return f"{number:,}" if number else ""


def _page_data(rows: Sequence[Row]) -> dict[str, Any]:
    """What the script reads: columns, the repetitive ones as (values, index of each row)."""
    columns: dict[str, Any] = {
        column: [_shortened(row[column]) for row in rows] for column in card.COLUMNS
    }
    for column in columns:
        if column != "name" and (column in card.LABELS or column.startswith("rule_")):
            columns[column] = _indexed(columns[column])
    columns["package"] = _indexed([card.package(row["source"]) for row in rows])
    return {
        "count": len(rows),
        "settings": SETTINGS,
        "download": card.COLUMNS,
        "columns": columns,
    }


def _indexed(labels: Sequence[str]) -> dict[str, list]:
    place = {label: index for index, label in enumerate(dict.fromkeys(labels))}
    return {"values": list(place), "index": [place[label] for label in labels]}


def _shortened(value: Any) -> Any:
    """Fractions to six significant digits; whole numbers and text as they are."""
    return float(f"{value:.6g}") if isinstance(value, float) else value

"""The card of a corpus of graphs: a CSV with a row a graph, what it is and what there is to gain.

Sizes are bytes, ``work`` (all durations) and ``critical_path`` are us; ``fingerprint`` is how the
graph's own (``ComputationGraph.fingerprint``) begins. For each platform setting X:
``bound_X`` is a lower bound of the peak memory, ``program_X`` the peak in program order,
``cheap_X`` the best of the cheap orders, ``rule_X`` which of them that is, ``best_X`` the lowest
known, and ``headroom_X`` is 100 (program_X / best_X - 1) percent. Unmeasured fields are empty.
"""

import csv
import io
import math
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from regal_jax.errors import RegalError
from regal_jax.graphs import files

SETTINGS = {
    "d1": "one device",
    "d2": "two devices",
    "d2m4": "two devices, four microbatches",
}
"""Platform settings and what they are."""

LABELS = ("name", "family", "source", "mode", "split", "fingerprint")
NUMBERS = (
    *("ops", "tensors", "edges", "depth", "flops", "bytes"),
    *("persistent_bytes", "work", "critical_path"),
)
MEASURES = ("bound", "program", "cheap", "rule", "best", "headroom")
COLUMNS = (*LABELS, *NUMBERS, *(f"{measure}_{x}" for x in SETTINGS for measure in MEASURES))
"""Every column of a card, in order."""

Row = dict[str, Any]

_SIGNED = tuple(f"headroom_{x}" for x in SETTINGS)


def read_card(path: str | os.PathLike) -> list[Row]:
    """The checked rows of a card (see ``check_rows``). RegalError names file, row and column."""
    text = files.read_text(Path(path))
    try:
        reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
        header = reader.fieldnames or []
        rows = list(reader)
    except csv.Error as error:
        raise RegalError(f"{path}: not a CSV file ({error})") from None
    missing = [column for column in COLUMNS if column not in header]
    if missing:
        raise RegalError(f"{path}: has no column {missing[0]!r}; a card has {', '.join(COLUMNS)}")
    try:
        return check_rows(rows)
    except RegalError as error:
        raise RegalError(f"{path}: {error}; correct the card or make it anew") from None


def write_card(rows: Iterable[Mapping[str, Any]], path: str | os.PathLike) -> None:
    """Writes rows, in the order of their names, atomically. Raises RegalError."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(sorted(check_rows(rows), key=lambda row: row["name"]))
    files.write_atomically(path, lambda file: file.write(buffer.getvalue().encode()))


def check_rows(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Rows with exactly COLUMNS: labels and rules str, the others int, float or None if unmeasured.

    ``name`` and ``ops`` are required; absent columns are unmeasured. Raises RegalError naming row
    (the first is 1) and column.
    """
    checked = []
    for number, row in enumerate(rows, 1):
        if None in row or any(row.get(column, "") is None for column in LABELS):
            raise RegalError(f"row {number}: has more or fewer fields than the header")
        checked.append({column: _value(number, column, row.get(column)) for column in COLUMNS})
        for column in ("name", "ops"):
            if checked[-1][column] in ("", None):
                raise RegalError(f"row {number}: column {column!r} is empty")
    return checked


def package(source: str) -> str:
    """The package a graph comes from, without version and mode: ``timm-1.0.31/fwd`` -> ``timm``."""
    return re.split(r"[/:]|-\d", source, maxsplit=1)[0] or "unknown"


def _value(number: int, column: str, value: Any) -> Any:
    if column in LABELS or column.startswith("rule_"):
        return "" if value is None else str(value)
    if value is None or value == "":
        return None
    try:
        parsed = _number(value)
    except (TypeError, ValueError):
        raise RegalError(f"row {number}: column {column!r} holds {value!r}, not a number") from None
    if parsed < 0 and column not in _SIGNED:
        raise RegalError(f"row {number}: column {column!r} holds {value!r}, which is negative")
    return parsed


def _number(value: Any) -> int | float:
    """An int where it is whole, so that bytes stay exact. ValueError for what is not finite."""
    try:
        return int(str(value))
    except ValueError:
        number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return int(number) if number.is_integer() else number

"""Committed memory of functions, so that a change that needs more is seen: a JSON file."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regal_jax.compiler.accelerators.measure import Measurement
from regal_jax.errors import LimitError, RegalError
from regal_jax.graphs.files import read_text, write_atomically
from regal_jax.reporting.tables import human_bytes

FORMAT = "regal-memory/1"


def numbers(one: Measurement) -> dict[str, Any]:
    """A measurement for JSON: its fields, and ``peak`` [bytes]."""
    return {**asdict(one), "peak": one.peak}


def check(path: str | Path, name: str, needs: Measurement, tolerance: float) -> None:
    """Compares with what a file says of the function on that accelerator, or adds it.

    Args:
      path: of the file; it is made where there is none.
      name: of the function.
      tolerance: by what share it may be above.

    Raises:
      LimitError: more than that above. RegalError: not such a file.
    """
    path = Path(path)
    rows = _read(path) if path.exists() else {}
    known = rows.setdefault(name, {})
    before = known.setdefault(needs.accelerator, needs.peak)
    if needs.peak > before * (1 + tolerance):
        raise LimitError(
            f"{name}: {human_bytes(needs.peak)} on {needs.accelerator},"
            f" {100 * (needs.peak / before - 1):.1f} % above the {human_bytes(before)} of {path}"
        )
    document = {"format": FORMAT, "peak_bytes": rows}
    text = json.dumps(document, indent=2, sort_keys=True) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def _read(path: Path) -> dict[str, dict[str, int]]:
    try:
        document = json.loads(read_text(path))
    except ValueError as error:
        raise RegalError(f"{path}: no JSON: {error}") from None
    is_one = isinstance(document, dict) and document.get("format") == FORMAT
    rows = document.get("peak_bytes") if is_one else None
    if not isinstance(rows, dict) or not all(
        isinstance(row, dict) and all(type(size) is int and size >= 0 for size in row.values())
        for row in rows.values()
    ):
        raise RegalError(f"{path}: no {FORMAT} file: remove it, and it is written anew")
    return rows

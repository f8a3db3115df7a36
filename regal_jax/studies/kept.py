"""Results that are kept: a repeated or interrupted run makes only what its file has no key of."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from regal_jax.errors import RegalError
from regal_jax.reporting import results
from regal_jax.reporting.results import Row

KEY = "key"
"""The column of ``keys.key``, first of a file's extra columns."""


class KeptRows:
    """The rows of a results file by key.

    A key's rows are whole if one of them has the metric that is written last; those of a key that
    was cut off while it was written are removed from the file.

    Raises RegalError for a file without the column "key".
    """

    def __init__(self, path: str | os.PathLike, last_metric: str, columns: Sequence[str] = (KEY,)):
        self._path, self._columns = Path(path), columns
        rows = _read(self._path)
        whole = results.done_keys(rows, [last_metric], [KEY])
        kept = [row for row in rows if (row[KEY],) in whole]
        if len(kept) < len(rows):
            results.write_results(path, kept, columns)
        self._rows: dict[str, list[Row]] = {}
        for row in kept:
            self._rows.setdefault(row[KEY], []).append(row)

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def __getitem__(self, key: str) -> list[Row]:
        return list(self._rows[key])

    def rows(self, key: str, make: Callable[[], Iterable[Row]]) -> list[Row]:
        """The rows of a key; they are made, without the column "key", and written if need be."""
        if key not in self:
            self.add(key, make())
        return self[key]

    def add(self, key: str, rows: Iterable[Row]) -> None:
        """Writes the rows of a key, as they are read back: extra columns are strings."""
        rows = [self._as_read(row | {KEY: key}) for row in rows]
        results.append_results(self._path, rows, self._columns)
        self._rows[key] = rows

    def arrange(self, keys: Iterable[str]) -> None:
        """Puts the rows of these keys in their order, in the places that they have in the file."""
        mine = [key for key in dict.fromkeys(keys) if key in self]
        order, found = iter(mine), set(mine)
        arranged = [next(order) if key in found else key for key in self._rows]
        if arranged == list(self._rows):
            return
        rows = {key: self._rows[key] for key in arranged}
        results.write_results(self._path, [row for key in rows for row in rows[key]], self._columns)
        self._rows = rows

    def _as_read(self, row: Row) -> Row:
        return row | {name: str(row[name]) for name in self._columns if name in row}


def _read(path: Path) -> list[Row]:
    """A file's rows. RegalError without the column "key"."""
    columns = results.read_columns(path) if path.exists() else ()
    if columns and KEY not in columns:
        raise RegalError(
            f"{path}: has no column {KEY!r}, so what its rows were measured with isn't known;"
            " move the file away, or write to another folder"
        )
    return results.read_results(path, missing_ok=True)

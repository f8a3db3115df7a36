"""Results of experiments: long-form CSV files that an interrupted run resumes from.

A row is a dict: graph, method, seed, metric, value, then the extra columns chosen when the file was
made. One line a row: fields hold no line breaks, so a line without its newline is a torn write.
"""

import csv
import io
import math
import os
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from regal_jax.errors import RegalError
from regal_jax.graphs import files

COLUMNS = ("graph", "method", "seed", "metric", "value")

Row = dict[str, Any]


def read_results(path: str | os.PathLike, *, missing_ok: bool = False) -> list[Row]:
    """The rows of a results file: seed an int, value an int or float, the rest strings.

    A last line that was cut off is dropped, with a warning.

    Args:
      path: the file.
      missing_ok: a file that does not exist has no rows, as when a run begins.

    Raises:
      RegalError: naming the file and line, for a malformed header or line; and for a missing file.
    """
    path = Path(path)
    if missing_ok and not path.exists():
        return []
    lines = _whole_lines(path)
    if not lines:
        return []
    columns = _header(path, lines[0])
    return [_row(f"{path}, line {i}", columns, line) for i, line in enumerate(lines[1:], 2)]


def read_columns(path: str | os.PathLike) -> tuple[str, ...]:
    """The columns of a results file; none of an empty one. RegalError as for its rows."""
    lines = _whole_lines(Path(path))
    return _header(Path(path), lines[0]) if lines else ()


def write_results(
    path: str | os.PathLike, rows: Iterable[Row], extra_columns: Sequence[str] = ()
) -> None:
    """Replaces a results file by these rows, atomically. Raises RegalError for a bad row."""
    columns = (*COLUMNS, *extra_columns)
    data = _lines([columns, *(_fields(row, columns) for row in rows)])
    files.write_atomically(path, lambda file: file.write(data))


def append_results(
    path: str | os.PathLike, rows: Iterable[Row], extra_columns: Sequence[str] = ()
) -> None:
    """Adds rows, which are on disk when this returns; makes the file if there is none.

    A torn last line is cut off first. RegalError for a bad row, a file with other columns, and
    where there is no room: then none of the rows are in the file.
    """
    path, columns = Path(path), (*COLUMNS, *extra_columns)
    data = _lines([_fields(row, columns) for row in rows])
    try:
        with open(path, "a+b", buffering=0) as file:
            _cut_torn_line(file)
            file.seek(0)
            header = file.readline().decode()
            _check_columns(path, header, columns)
            files.append_to(file, data if header else _lines([columns]) + data)
    except OSError as error:
        raise RegalError(f"{path}: can't write there: {error.strerror}") from None


def done_keys(
    rows: Iterable[Row],
    metrics: Sequence[str] = (),
    columns: Sequence[str] = ("graph", "method", "seed"),
) -> set[tuple]:
    """The keys (values of ``columns``) that a resumed run can skip.

    A key is done if it has a row for each of ``metrics``, or any row where no metrics are named.
    """
    found = defaultdict(set)
    for row in rows:
        found[tuple(row[column] for column in columns)].add(row["metric"])
    return {key for key, present in found.items() if present.issuperset(metrics)}


def _whole_lines(path: Path) -> list[str]:
    """The lines that end in a newline; warns about a last one that does not."""
    try:
        *lines, rest = path.read_bytes().split(b"\n")
        if rest:
            warnings.warn(f"{path}, line {len(lines) + 1}: cut off, dropped", stacklevel=3)
        return [line.decode().removesuffix("\r") for line in lines]
    except UnicodeDecodeError as error:
        raise RegalError(f"{path}: not UTF-8 text ({error.reason})") from None
    except OSError as error:
        raise RegalError(f"{path}: {(error.strerror or str(error)).lower()}") from None


def _cut_torn_line(file: IO[bytes]) -> None:
    """Truncates a file after its last newline."""
    if file.seek(0, os.SEEK_END) == 0:
        return
    file.seek(-1, os.SEEK_END)
    if file.read(1) != b"\n":
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


def _check_columns(path: Path, header: str, columns: tuple[str, ...]) -> None:
    found = _header(path, header.rstrip("\r\n")) if header else columns
    if found != columns:
        names = ",".join(columns)
        raise RegalError(f"{path}, line 1: has the columns {','.join(found)}, expected {names}")


def _header(path: Path, line: str) -> tuple[str, ...]:
    columns = _split(f"{path}, line 1", line)
    if columns[: len(COLUMNS)] != COLUMNS or len(set(columns)) != len(columns):
        raise RegalError(f"{path}, line 1: the header must begin with {','.join(COLUMNS)}")
    return columns


def _row(where: str, columns: Sequence[str], line: str) -> Row:
    fields = _split(where, line)
    if len(fields) != len(columns):
        raise RegalError(f"{where}: has {len(fields)} fields for {len(columns)} columns")
    row: Row = dict(zip(columns, fields, strict=True))
    row["seed"] = _number(where, "seed", row["seed"], whole=True)
    row["value"] = _number(where, "value", row["value"])
    return row


def _split(where: str, line: str) -> tuple[str, ...]:
    try:
        return tuple(next(csv.reader([line], strict=True), ()))
    except csv.Error as error:
        raise RegalError(f"{where}: not CSV ({error})") from None


def _number(where: str, column: str, text: str, *, whole: bool = False) -> int | float:
    for convert in (int,) if whole else (int, float):
        try:
            number = convert(text)
        except ValueError:
            continue
        if not math.isnan(number):
            return number
    raise RegalError(f"{where}: {column} is not {'an integer' if whole else 'a number'} ({text!r})")


def _fields(row: Row, columns: Sequence[str]) -> list[str]:
    """The fields of a row, checked as they will be when read."""
    if set(row) != set(columns):
        missing = sorted(set(columns) ^ set(row))
        raise RegalError(f"results: a row must have the columns {columns}; see {missing}")
    fields = [str(row[column]) for column in columns]
    _number("results", "seed", fields[2], whole=True)
    _number("results", "value", fields[4])
    if any(set(field) & set("\r\n\0") for field in fields):
        raise RegalError(f"results: a field holds a line break: {fields}")
    return fields


def _lines(rows: Iterable[Sequence[str]]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue().encode()

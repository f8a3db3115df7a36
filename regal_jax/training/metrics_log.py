"""What training reports, as rows of a CSV file that a resumed run continues."""

import csv
import io
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from regal_jax.graphs import files


class MetricsLog:
    """One row a step: step, seconds and the given columns. RegalError where none can be written."""

    def __init__(self, path: Path, columns: Sequence[str]):
        self.path, self.begin = path, time.monotonic()
        self.columns = ("step", "seconds", *columns)

    def start_at(self, step: int) -> None:
        """Cuts off the rows after the resumed step; 0 begins a new file."""
        rows: list[Mapping] = []
        if self.path.exists() and step:
            with self.path.open(newline="") as file:
                rows = [row for row in csv.DictReader(file) if int(row["step"] or 0) <= step]
        header = dict(zip(self.columns, self.columns, strict=True))
        text = self._lines([header, *rows])
        files.write_atomically(self.path, lambda file: file.write(text))

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Appends the row of a step; columns without a metric stay empty."""
        seconds = round(time.monotonic() - self.begin, 3)
        row = {"step": step, "seconds": seconds, **metrics}
        files.append(self.path, self._lines([row]))

    def _lines(self, rows: Iterable[Mapping]) -> bytes:
        buffer = io.StringIO()
        csv.DictWriter(buffer, self.columns).writerows(rows)
        return buffer.getvalue().encode()

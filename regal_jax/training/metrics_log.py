"""What training reports, as rows of a CSV file that a resumed run continues."""

import csv
import time
from collections.abc import Mapping, Sequence
from pathlib import Path


class MetricsLog:
    """One row a step: step, seconds, and the given columns."""

    def __init__(self, path: Path, columns: Sequence[str]):
        self.path, self.begin = path, time.monotonic()
        self.columns = ("step", "seconds", *columns)

    def start_at(self, step: int) -> None:
        """Cuts off the rows after the resumed step; 0 begins a new file."""
        rows = []
        if self.path.exists() and step:
            with self.path.open(newline="") as file:
                rows = [row for row in csv.DictReader(file) if int(row["step"] or 0) <= step]
        with self.path.open("w", newline="") as file:
            writer = csv.DictWriter(file, self.columns)
            writer.writeheader()
            writer.writerows(rows)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Appends the row of a step; columns without a metric stay empty."""
        seconds = round(time.monotonic() - self.begin, 3)
        with self.path.open("a", newline="") as file:
            row = {"step": step, "seconds": seconds, **metrics}
            csv.DictWriter(file, self.columns).writerow(row)

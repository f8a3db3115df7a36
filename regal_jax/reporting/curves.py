"""What a training run reports, step by step, from its ``metrics.csv``."""

import csv
import io
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regal_jax.errors import OptionError
from regal_jax.graphs import files


class Curve(NamedTuple):
    """A number that a training run reports: steps int[N], ascending, and values float64[N]."""

    steps: np.ndarray
    values: np.ndarray


def read_curve(metrics: str | os.PathLike, column: str = "speedup") -> Curve:
    """A column of a run's ``metrics.csv``, at the steps where it has a number.

    Raises:
      RegalError: for a missing file. OptionError: for one without the columns "step" and
        ``column``, or with something else than numbers there; naming the file and line.
    """
    path = Path(metrics)
    reader = csv.DictReader(io.StringIO(files.read_text(path), newline=""))
    for name in ("step", column):
        if name not in (reader.fieldnames or ()):
            raise OptionError(f"{path}, line 1: has no column {name!r}")
    points = []
    for row in reader:
        try:
            if row[column]:
                points.append((int(row["step"]), float(row[column])))
        except (TypeError, ValueError):
            where = f"{path}, line {reader.line_num}"
            raise OptionError(f"{where}: step or {column} is not a number") from None
    steps, values = zip(*points, strict=True) if points else ((), ())
    return Curve(np.array(steps, int), np.array(values, float))

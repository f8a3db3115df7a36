"""A training run's costs, step by step, from its ``metrics.csv``. Errors as in ``plots``."""

import csv
import os
from pathlib import Path

import numpy as np

from regal_jax.errors import OptionError
from regal_jax.reporting import figures

LABELS = {"cost": "samples, mean", "best_cost": "samples, best", "validation_cost": "validation"}
"""What is drawn, of the columns of ``training.one_shot_loop``."""


def plot_training(
    metrics: str | os.PathLike, path: str | os.PathLike, *, title: str = "Training"
) -> None:
    """Draws the costs of a run against its steps: of training graphs as moving means over a
    fiftieth of the steps, of the validation graphs as dots."""
    figures.check_suffix(path)
    steps, columns = _read(Path(metrics))
    if not len(steps):
        raise OptionError(f"{metrics}: a plot of a training needs at least one step")
    figure = figures.new_figure(7.0, 4.0)
    axes = figure.subplots()
    figures.style_axes(axes)
    handles = []
    for (name, values), color in zip(columns.items(), figures.SERIES, strict=False):
        known = np.isfinite(values)
        if name == "validation_cost":
            drawn = axes.plot(steps[known], values[known], "o-", color=color, markersize=4)
        else:
            drawn = axes.plot(steps[known], _moving_mean(values[known]), color=color)
        handles += drawn
    axes.set_xlabel("step")
    axes.set_ylabel("makespan / lower bound")
    figures.add_legend(axes, handles, [LABELS[name] for name in columns], loc="upper right")
    figures.set_title(figure, title)
    figures.save_figure(figure, path)


def _read(path: Path) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """(steps int[N], {column: float[N], NaN where there is no number})."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    columns = {name: np.array([float(row[name] or "nan") for row in rows]) for name in LABELS}
    return np.array([int(row["step"]) for row in rows]), columns


def _moving_mean(values: np.ndarray) -> np.ndarray:
    """Means of each value and those before it, over at most a fiftieth of all."""
    width = max(len(values) // 50, 1)
    total = np.cumsum(np.insert(values, 0, 0.0))
    last = np.arange(1, len(values) + 1)
    first = np.maximum(last - width, 0)
    return (total[last] - total[first]) / (last - first)

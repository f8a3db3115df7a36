"""A training run's costs, step by step, from its ``metrics.csv``. Errors as in ``plots``."""

import os

import numpy as np

from regal_jax.errors import OptionError
from regal_jax.reporting import figures
from regal_jax.reporting.curves import read_curve

LABELS = {"cost": "samples, mean", "best_cost": "samples, best", "validation_cost": "validation"}
"""What is drawn, of the columns of ``training.one_shot``."""


def plot_training(
    metrics: str | os.PathLike, path: str | os.PathLike, *, title: str = "Training"
) -> None:
    """Draws the costs of a run against its steps: of training graphs as moving means over a
    fiftieth of the steps, of the validation graphs as dots."""
    figures.check_suffix(path)
    curves = {name: read_curve(metrics, name) for name in LABELS}
    if not any(len(curve.steps) for curve in curves.values()):
        raise OptionError(f"{metrics}: a plot of a training needs at least one step")
    figure = figures.new_figure(7.0, 4.0)
    axes = figure.subplots()
    figures.style_axes(axes)
    handles = []
    for (name, curve), color in zip(curves.items(), figures.SERIES, strict=False):
        if name == "validation_cost":
            drawn = axes.plot(*curve, "o-", color=color, markersize=4)
        else:
            drawn = axes.plot(curve.steps, _moving_mean(curve.values), color=color)
        handles += drawn
    axes.set_xlabel("step")
    axes.set_ylabel("makespan / lower bound")
    figures.add_legend(axes, handles, list(LABELS.values()), loc="upper right")
    figures.set_title(figure, title)
    figures.save_figure(figure, path)


def _moving_mean(values: np.ndarray) -> np.ndarray:
    """Means of each value and those before it, over at most a fiftieth of all."""
    width = max(len(values) // 50, 1)
    total = np.cumsum(np.insert(values, 0, 0.0))
    last = np.arange(1, len(values) + 1)
    first = np.maximum(last - width, 0)
    return (total[last] - total[first]) / (last - first)

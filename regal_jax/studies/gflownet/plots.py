"""Figures 2 to 5 of gflownet_robust_scheduling. Errors as in ``plots``."""

import itertools
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from regal_jax.errors import OptionError
from regal_jax.reporting import figures
from regal_jax.reporting.curves import Curve

_BINS = 40
"""Of a histogram."""

_POINTS = 25
"""Of a curve of means, at most."""


Curves = Mapping[str, Sequence[Curve]]
"""Of runs, by label."""


def correlations(proxy: ArrayLike, targets: Mapping[str, ArrayLike]) -> dict[str, float]:
    """Pearson's correlation of proxy and target speedups, by target; NaN where one is constant."""
    return {name: _correlation(np.asarray(proxy), np.asarray(t)) for name, t in targets.items()}


def plot_proxy_against_targets(
    proxy: ArrayLike,
    targets: Mapping[str, ArrayLike],
    path: str | os.PathLike,
) -> None:
    """Draws a panel a target, with a dot for each schedule at its speedup on the proxy and on the
    target, and their correlation (figure 2). Dashed is where the two are the same.

    Args:
      proxy: float[N]. targets: float[N] by name, of the same schedules.
      path: of the figure.
    """
    figures.check_suffix(path)
    proxy = _numbers(proxy, "a scatter plot")
    drawn = {name: _numbers(speedup, "a scatter plot") for name, speedup in targets.items()}
    if not drawn or any(len(speedup) != len(proxy) for speedup in drawn.values()):
        raise OptionError("a scatter plot needs targets, each with as many speedups as the proxy")
    figure = figures.new_figure(0.8 + 3.2 * len(drawn), 3.7)
    panels = figure.subplots(1, len(drawn), squeeze=False, sharex=True, sharey=True)[0]
    for axes, (name, speedup) in zip(panels, drawn.items(), strict=True):
        figures.style_axes(axes, grid="both")
        color = figures.SERIES[0]
        axes.plot(proxy, speedup, "o", color=color, markersize=3, alpha=0.35, markeredgewidth=0)
        same = [proxy.min(), proxy.max()]
        axes.plot(same, same, color=figures.MUTED, linewidth=1, linestyle=(0, (4, 3)))
        label = f"{figures.plain(name)}: correlation {_correlation(proxy, speedup):.2f}"
        axes.set_title(label, size=9.5, color=figures.INK)
        axes.set_xlabel("speedup on the proxy")
    panels[0].set_ylabel("speedup on the target")
    figures.set_title(figure, "Speedup on the proxy and on targets")
    figures.save_figure(figure, path)


def plot_speedups_by_temperature(
    speedups: Mapping[float, ArrayLike], path: str | os.PathLike
) -> None:
    """Draws a histogram of the samples' speedups for each temperature (figure 3), all in the same
    bins, as shares of the temperature's samples."""
    figures.check_suffix(path)
    drawn = {t: _numbers(some, "a histogram") for t, some in speedups.items()}
    if not drawn:
        raise OptionError("a histogram needs at least one temperature")
    every = np.concatenate(list(drawn.values()))
    # Equal speedups may differ in their last bits, too little for bins of their own.
    bins = np.linspace(every.min(), max(every.max(), every.min() + 0.1), _BINS + 1)
    figure = figures.new_figure(7.0, 4.0)
    axes = figure.subplots()
    figures.style_axes(axes)
    handles = []
    for samples, color in zip(drawn.values(), itertools.cycle(figures.SERIES), strict=False):
        share = 100.0 * np.histogram(samples, bins)[0] / len(samples)
        axes.stairs(share, bins, fill=True, color=color, alpha=0.25)
        handles.append(axes.stairs(share, bins, color=color, linewidth=1.4))
    axes.set_xlabel("speedup on the proxy")
    axes.set_ylabel("share of the samples [%]")
    labels = [f"temperature {temperature:g}" for temperature in drawn]
    figures.add_legend(axes, handles, labels, loc="upper left")
    figures.set_title(figure, "Speedup of samples by temperature")
    figures.save_figure(figure, path)


def plot_training_speedup(curves: Curves, path: str | os.PathLike) -> None:
    """Draws the average speedup of sampled schedules during training (figure 4), a colour for each
    label, for example a loss, and a line for each of its runs: means over a 25th of its steps.
    """
    title = "Average speedup of the sampled schedules"
    _plot_curves(curves, path, _draw_means, y_label="average speedup of samples", title=title)


def plot_generalisation(curves: Curves, path: str | os.PathLike) -> None:
    """Draws the best sample's speedup on unseen graphs during training (figure 5), a colour for
    each label, for example a range of temperatures, and a line with dots for each of its runs."""
    title = "Speedup on graphs that training has not seen"
    _plot_curves(curves, path, _draw_dots, y_label="speedup of the best sample", title=title)


def _plot_curves(
    curves: Curves, path: str | os.PathLike, draw: Callable, *, y_label: str, title: str
) -> None:
    figures.check_suffix(path)
    if not any(curves.values()) or not all(len(r.steps) for runs in curves.values() for r in runs):
        raise OptionError("a plot of training needs at least one run, and a step in each")
    figure = figures.new_figure(7.0, 4.0)
    axes = figure.subplots()
    figures.style_axes(axes)
    handles = {}
    for (label, runs), color in zip(curves.items(), itertools.cycle(figures.SERIES), strict=False):
        for run in runs:
            handles[label] = draw(axes, run, color)
    axes.set_xlabel("step")
    axes.set_ylabel(y_label)
    figures.add_legend(axes, list(handles.values()), list(handles), loc="best")
    figures.set_title(figure, title)
    figures.save_figure(figure, path)


def _draw_means(axes, run: Curve, color: str):
    points = min(_POINTS, len(run.steps))
    steps = [part.mean() for part in np.array_split(run.steps, points)]
    values = [part.mean() for part in np.array_split(run.values, points)]
    return axes.plot(steps, values, color=color, linewidth=1.5)[0]


def _draw_dots(axes, run: Curve, color: str):
    return axes.plot(run.steps, run.values, "o-", color=color, linewidth=1.5, markersize=3.5)[0]


def _numbers(values: ArrayLike, what: str) -> np.ndarray:
    numbers = np.asarray(values, float)
    if numbers.ndim != 1 or not numbers.size or not np.all(np.isfinite(numbers)):
        raise OptionError(f"{what} needs finite speedups, at least one")
    return numbers


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])

"""Temporaries of programs over those of XLA's better order. Errors as in ``plots``."""

import os
from collections.abc import Mapping

import numpy as np

from regal_jax.errors import OptionError
from regal_jax.reporting import figures


def plot_ratios(
    ratios: Mapping[str, float],
    path: str | os.PathLike,
    *,
    title: str = "Temporary memory over that of XLA's better order",
) -> None:
    """Draws a histogram of ratios, and one bar a program, least first.

    Args:
      ratios: by program; 1 is XLA's better order.
      path, title: of the figure.
    """
    figures.check_suffix(path)
    if not ratios:
        raise OptionError("a plot of ratios needs at least one program")
    names = sorted(ratios, key=lambda name: ratios[name])
    values = np.array([ratios[name] for name in names])
    figure = figures.new_figure(9.0, 2.6 + 0.16 * len(names))
    histogram, bars = figure.subplots(2, 1, height_ratios=[1.6, 0.6 + 0.16 * len(names)])
    figures.style_axes(histogram)
    edges = np.linspace(min(0.0, values.min()), max(1.0, values.max()), 21)
    histogram.hist(values, edges, color=figures.SERIES[0], edgecolor="white")
    histogram.set_ylabel("programs")
    figures.style_axes(bars, grid="x")
    bars.barh(range(len(names)), values, color=figures.SERIES[0], height=0.7)
    bars.axvline(1.0, color=figures.MUTED, linewidth=1, linestyle=(0, (4, 3)))
    bars.set_yticks(range(len(names)), [figures.plain(name) for name in names], size=6.5)
    bars.set_ylim(len(names) - 0.4, -0.6)
    bars.set_xlabel("ratio (less is better)")
    figures.set_title(figure, title)
    figures.save_figure(figure, path)

"""Plots of REGAL's analysis: figures 7 and 8. Errors as in ``plots``."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regal_jax.errors import OptionError
from regal_jax.reporting import figures

GROUP_COLUMNS = ("placement", "scheduling")
_PANELS = {"frequency %": "frequency [%]", "relative memory": "average relative memory"}


def plot_action_usage(rows: Sequence[Mapping[str, Any]], path: str | os.PathLike) -> None:
    """Draws how often each group of actions is chosen, and how heavy the ops are that it is applied
    to (regal_transfer_learning, figure 7). ``rows`` are those of ``usage_by_group``."""
    figures.check_suffix(path)
    if not rows:
        raise OptionError("a plot of actions needs at least one group")
    figure = figures.new_figure(9.0, 1.4 + 0.36 * len(rows))
    names = [figures.plain(", ".join(row[column] for column in GROUP_COLUMNS)) for row in rows]
    both = figure.subplots(1, 2, sharey=True)
    for axes, color, (column, label) in zip(both, figures.SERIES, _PANELS.items(), strict=False):
        figures.style_axes(axes, grid="x")
        lengths = [row[column] or 0.0 for row in rows]
        axes.barh(range(len(rows)), lengths, height=0.62, color=color)
        axes.set_xlabel(label)
    both[0].set_yticks(range(len(rows)), names)
    both[0].invert_yaxis()
    figures.set_title(figure, "Actions of the policy")
    figures.save_figure(figure, path)


def plot_spread(values: Mapping[str, Sequence[float]], path: str | os.PathLike) -> None:
    """Draws a box a number of rounds with its runs as dots (regal_transfer_learning, figure 8)."""
    figures.check_suffix(path)
    if not values or not all(len(of_one) for of_one in values.values()):
        raise OptionError("a box plot needs at least one value for each box")
    figure = figures.new_figure(7.0, 4.2)
    axes = figure.subplots()
    figures.style_axes(axes)
    places = np.arange(len(values))
    line = {"color": figures.INK, "linewidth": 1.1}
    axes.boxplot(
        list(values.values()),
        positions=places,
        widths=0.5,
        showfliers=False,  # all runs are drawn below
        patch_artist=True,
        boxprops={"facecolor": figures.GRID, "edgecolor": figures.INK},
        medianprops={"color": figures.SERIES[1], "linewidth": 1.8},
        whiskerprops=line,
        capprops=line,
    )
    for place, of_one in zip(places, values.values(), strict=True):
        aside = 0.3 * (np.arange(len(of_one)) + 0.5) / len(of_one) - 0.15
        axes.plot(place + aside, of_one, "o", color=figures.SERIES[0], markersize=3, alpha=0.7)
    axes.set_xticks(places, [figures.plain(label) for label in values])
    axes.set_xlabel("rounds of message passing T")
    axes.set_ylabel("best validation improvement [%]")
    figures.set_title(figure, "Rounds of message passing")
    figures.save_figure(figure, path)

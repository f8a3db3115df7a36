"""How good methods are, and how long they take. Errors as in ``plots``."""

import itertools
import os
from collections.abc import Mapping, Sequence

from regal_jax.errors import OptionError
from regal_jax.reporting import figures
from regal_jax.studies.topoformer.tables import OrderingLine

_MARKERS = "oD"


def plot_gap_against_time(
    lines: Mapping[str, Sequence[OrderingLine]],
    path: str | os.PathLike,
    *,
    reference: str,
    title: str,
) -> None:
    """Draws a panel a setting, with a dot for each method at its mean seconds (logarithmic) and its
    mean % gap from the reference, with bars for the 95 % interval (figures 2 and 3 of
    neural_topological_ordering)."""
    figures.check_suffix(path)
    if not lines or not all(lines.values()):
        raise OptionError("a plot against time needs at least one method a setting")
    figure = figures.new_figure(2.2 + 3.4 * len(lines), 4.2)
    panels = figure.subplots(1, len(lines), squeeze=False)[0]
    methods = dict.fromkeys(line.method for some in lines.values() for line in some)
    looks = dict(zip(methods, itertools.product(_MARKERS, figures.SERIES), strict=False))
    handles = {}
    for axes, (setting, some) in zip(panels, lines.items(), strict=True):
        figures.style_axes(axes, grid="both")
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
        axes.set_title(figures.plain(setting), size=9.5, color=figures.INK)
        axes.set_xlabel("run time [s]")
        for line in some:
            handles[line.method] = _draw(axes, line, *looks[line.method])
    panels[0].set_ylabel(figures.plain(f"gap from {reference} [%]", 60))
    anchor = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.03), "handlelength": 1.0}
    figures.add_legend(panels[-1], list(handles.values()), list(handles), **anchor)
    figures.set_title(figure, title)
    figures.save_figure(figure, path)


def _draw(axes, line: OrderingLine, marker: str, color: str):
    gap, seconds = line.gap, max(line.seconds.mean, 1e-6)
    axes.vlines(seconds, gap.low, gap.high, color=color, linewidth=1.2, alpha=0.6)
    return axes.plot(seconds, gap.mean, marker, color=color, markersize=6)[0]

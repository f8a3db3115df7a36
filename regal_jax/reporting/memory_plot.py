"""Memory over time, before and after: the picture of what a schedule saves, and where."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from regal_jax.environments.placement import bounds, checker
from regal_jax.environments.placement.checker import MemoryTimeline
from regal_jax.environments.recompute.bounds import least_memory
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import figures
from regal_jax.reporting.tables import BYTE_UNITS, human_bytes, unit_of

NAMED_TENSORS = 6
SHOWN_DEVICES = 8
BOUND_LINE: Any = {"color": figures.BAD, "linestyle": (0, (4, 3)), "linewidth": 1}


class _Curve(NamedTuple):
    """One schedule to draw."""

    label: str
    schedule: Schedule
    timeline: MemoryTimeline
    color: str

    @property
    def peaks(self) -> np.ndarray:
        """int64[D], bytes."""
        return self.timeline.usage.max(axis=0)

    @property
    def fullest(self) -> int:
        """The device whose peak is the schedule's."""
        return int(self.peaks.argmax())


def plot_memory(
    graph: ComputationGraph,
    schedules: Mapping[str, Schedule],
    path: str | os.PathLike,
    *,
    title: str | None = None,
    lower_bound: float | None = None,
) -> None:
    """Draws the memory in use during each step, one panel a device, the schedules laid over.

    Of many devices the eight fullest are shown. The peak of each schedule is marked; what fills it
    is broken down at the side: tensors that are persistent, the largest others by name, the rest.
    The last schedule is the one recommended, those before it are what it is compared with.

    Args:
      graph: the graph the schedules belong to.
      schedules: label -> schedule; two are clearest, for example default order and ours.
      path: a .png, .svg or .pdf file.
      title: by default the graph's name and the change of the peak from first to last.
      lower_bound: bytes of the fullest device; by default the highest that the schedules hold, or
        the bound of the graph on as many devices as they use.

    Raises:
      ScheduleError: for an invalid schedule. OptionError: without schedules, or for another suffix.
      MissingDependencyError: without matplotlib. RegalError: where the place can't be written.
    """
    figures.check_suffix(path)
    if not schedules:
        raise OptionError("a memory plot needs at least one schedule")
    curves = _curves(graph, schedules)
    num_devices = max(schedule.num_devices for schedule in schedules.values())
    if lower_bound is None:
        lower_bound = _proven(graph, schedules.values(), num_devices)
    devices = _shown_devices(curves, num_devices)
    rows = max(len(devices), len(curves))
    figure = figures.new_figure(10.5, max(3.6, 1.0 + 1.9 * rows))
    figures.set_title(figure, title if title is not None else _title(graph, curves))
    over_time, breakdown = figure.subfigures(1, 2, width_ratios=[2.1, 1.0])
    unit = unit_of(max(float(curve.peaks.max()) for curve in curves), BYTE_UNITS)
    _draw_devices(over_time, curves, devices, lower_bound, unit)
    _draw_breakdowns(breakdown, graph, curves)
    figures.save_figure(figure, path)


def _curves(graph: ComputationGraph, schedules: Mapping[str, Schedule]) -> list[_Curve]:
    """Grey for a first of several, colours for the others."""
    colors = (figures.SERIES if len(schedules) == 1 else (figures.GREY, *figures.SERIES)) * 9
    return [
        _Curve(label, schedule, checker.memory_timeline(graph, schedule), color)
        for (label, schedule), color in zip(schedules.items(), colors, strict=False)
    ]


def _proven(graph: ComputationGraph, schedules: Iterable[Schedule], num_devices: int) -> float:
    """The highest lower bound that is known, bytes of the fullest device."""
    alike = [one for one in schedules if one.num_devices == num_devices]
    if any(one.runs_again for one in alike):
        return least_memory(graph)
    held = [one.lower_bound or 0.0 for one in alike if one.objective == "peak_memory"]
    return max(bounds.peak_memory_bound(graph, num_devices), *held, 0.0)


def _title(graph: ComputationGraph, curves: list[_Curve]) -> str:
    name = graph.name or "graph"
    before, after = int(curves[0].peaks.max()), int(curves[-1].peaks.max())
    if before == after:
        return f"{name}: peak memory {human_bytes(after)}"
    change = f" ({100 * (after - before) / before:+.1f} %)" if before else ""
    change = change.replace("-", "−")
    return f"{name}: peak memory {human_bytes(before)} → {human_bytes(after)}{change}"


def _draw_devices(
    figure: Any, curves: list[_Curve], devices: list[int], bound: float, unit: tuple[str, float]
) -> None:
    """One panel a device, on common axes, with one legend above them."""
    panels = figure.subplots(len(devices), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    panels[0].set_ylim(*_range(curves, bound, unit))
    panels[0].set_xlim(0, max(len(curve.timeline.usage) for curve in curves))
    for device, axes in zip(devices, panels, strict=True):
        figures.style_axes(axes)
        here = [curve for curve in curves if device < curve.schedule.num_devices]
        styles = figures.line_styles([curve.timeline.usage[:, device] for curve in here])
        for after, (curve, style) in enumerate(zip(here, styles, strict=True), 1 - len(here)):
            _draw_curve(axes, curve, device, unit, style, 6 if style == "-" else 6 - 3 * after)
        axes.axhline(bound / unit[1], **BOUND_LINE)
        _label_peaks(axes, here, device, unit)
        where = f"device {device}, " if len(devices) > 1 else ""
        cut = " (not from 0)" if axes.get_ylim()[0] > 0 else ""
        axes.set_ylabel(f"{where}{unit[0]}{cut}")
    panels[-1].set_xlabel("step")
    handles = [panels[0].plot([], [], color=curve.color, linewidth=2)[0] for curve in curves]
    optimal = any(curve.peaks.max() <= bound for curve in curves)
    known = "optimal: the lower bound" if optimal else "lower bound"
    labels = [*(curve.label for curve in curves), f"{known}, {human_bytes(bound)}"]
    anchor = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.2}
    line = panels[0].plot([], [], **BOUND_LINE)
    figures.add_legend(panels[0], [*handles, *line], labels, ncols=len(labels), **anchor)


def _shown_devices(curves: list[_Curve], num_devices: int) -> list[int]:
    """The devices to draw, in order: all, or the fullest ones where there are too many."""
    highest = np.zeros(num_devices)
    for curve in curves:
        count = curve.schedule.num_devices
        highest[:count] = np.maximum(highest[:count], curve.peaks)
    return sorted(np.argsort(-highest, kind="stable")[:SHOWN_DEVICES].tolist())


def _range(curves: list[_Curve], bound: float, unit: tuple[str, float]) -> tuple[float, float]:
    """Limits of the memory axis: from 0, unless memory never falls below 70 % of the peak."""
    highest = max(bound, 1.0, *(float(curve.peaks.max()) for curve in curves))
    lowest = min(float(curve.timeline.usage.min()) for curve in curves)
    floor = lowest - 0.25 * (highest - lowest) if lowest > 0.7 * highest else 0.0
    return floor / unit[1], (highest + 0.1 * (highest - floor)) / unit[1]


def _draw_curve(
    axes: Any, curve: _Curve, device: int, unit: tuple[str, float], style: Any, dot_size: float
) -> None:
    """The filled curve of one schedule, with a dot on its peak."""
    usage = curve.timeline.usage[:, device] / unit[1]
    edges = np.arange(len(usage) + 1)
    axes.stairs(usage, edges, fill=True, color=curve.color, alpha=0.22, linewidth=0)
    axes.stairs(usage, edges, baseline=None, color=curve.color, linewidth=1.5, linestyle=style)
    row = int(curve.timeline.peak_row[device])
    dot = {"color": curve.color, "markersize": dot_size, "markeredgecolor": "white", "zorder": 5}
    axes.plot([row + 0.5], [usage[row]], "o", **dot)


def _label_peaks(axes: Any, curves: list[_Curve], device: int, unit: tuple[str, float]) -> None:
    """The peaks' sizes at the right edge, level with the dots where there is room; bold where it is
    the schedule's peak, once where several are equal."""
    low, high = axes.get_ylim()
    line_height, height = 0.13 * (high - low), -np.inf
    distinct = {int(curve.peaks[device]): curve for curve in curves}
    for _, curve in sorted(distinct.items()):
        peak = float(curve.peaks[device])
        height = max(peak / unit[1], height + line_height)
        axes.annotate(
            human_bytes(peak),
            (1.0, height),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            size=8.5,
            weight="bold" if device == curve.fullest else "normal",
            color=figures.MUTED if curve.color == figures.GREY else curve.color,
            annotation_clip=False,
        )


def _draw_breakdowns(figure: Any, graph: ComputationGraph, curves: list[_Curve]) -> None:
    """What is in memory at each schedule's peak, as bars on a common scale."""
    panels = figure.subfigures(len(curves), 1, squeeze=False)[:, 0]
    parts = [_at_peak(graph, curve) for curve in curves]
    longest = max((size for rows in parts for _, size in rows), default=1)
    for panel, curve, rows in zip(panels, curves, parts, strict=True):
        device = f", device {curve.fullest}" if curve.schedule.num_devices > 1 else ""
        step = int(curve.timeline.peak_row[curve.fullest])
        where = f"{figures.plain(curve.label, 24)}, peak at step {step}{device}"
        panel.suptitle(where, x=0.04, ha="left", size=9, weight="bold", color=figures.INK)
        axes = panel.subplots()
        axes.set_xlim(0, 1.45 * longest)
        _draw_bars(axes, rows, figures.MUTED if curve.color == figures.GREY else curve.color)


def _draw_bars(axes: Any, parts: list[tuple[str, int]], color: str) -> None:
    """One horizontal bar a part, with its label and size."""
    figures.style_axes(axes)
    axes.grid(False)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="x", bottom=False, labelbottom=False)
    axes.tick_params(axis="y", length=0, labelsize=8, labelcolor=figures.INK)
    sizes = [float(size) for _, size in parts]
    bars = axes.barh(range(len(parts)), sizes, color=color, height=0.66, alpha=0.75)
    axes.set_yticks(range(len(parts)), [figures.plain(label, 26) for label, _ in parts])
    axes.set_ylim(max(len(parts), 4) - 0.5, -0.6)
    sizes_shown = [human_bytes(size) for size in sizes]
    axes.bar_label(bars, sizes_shown, padding=3, size=8, color=figures.INK)


def _at_peak(graph: ComputationGraph, curve: _Curve) -> list[tuple[str, int]]:
    """(label, bytes) of what adds up to the peak: persistent, largest first, rest, workspace."""
    device = curve.fullest
    live = np.array(curve.timeline.live_at_peak[device], np.int64)
    home = np.where(graph.producer < 0, device, curve.schedule.placement[graph.producer])
    kept = graph.persistent[live] & (home[live] == device)
    parts = [_group("persistent", graph, live[kept])] if kept.any() else []
    others = live[~kept]
    named = others[graph.size[others] > 0][:NAMED_TENSORS]
    parts += [(graph.tensor_label(tensor), int(graph.size[tensor])) for tensor in named.tolist()]
    rest = others[len(named) :]
    if graph.size[rest].sum() > 0:
        parts.append(_group("others", graph, rest[graph.size[rest] > 0]))
    workspace = int(curve.peaks[device]) - int(graph.size[live].sum())
    return [*parts, ("workspace", workspace)] if workspace else parts


def _group(label: str, graph: ComputationGraph, tensors: np.ndarray) -> tuple[str, int]:
    return f"{label} ({len(tensors)})", int(graph.size[tensors].sum())

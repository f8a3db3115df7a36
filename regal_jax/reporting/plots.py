"""Plots of schedules and experiments; every one is written to a .png, .svg or .pdf file.

All raise OptionError for another suffix or nothing to draw, MissingDependencyError without
matplotlib, and RegalError where the place can't be written.
"""

import itertools
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import figures
from regal_jax.reporting.gantt import plot_machines
from regal_jax.reporting.memory_plot import BOUND_LINE, plot_memory
from regal_jax.reporting.op_colors import by_kind
from regal_jax.reporting.step_times import StepTimes, describe_steps, step_times
from regal_jax.reporting.tables import TIME_UNITS, human_time_us, unit_of

__all__ = [
    "plot_evaluation_limits",
    "plot_gantt",
    "plot_improvement_histogram",
    "plot_memory",
]


def plot_gantt(
    graph: ComputationGraph,
    schedule: Schedule,
    path: str | os.PathLike,
    platform: Platform | None = None,
    *,
    title: str | None = None,
) -> None:
    """Draws which device runs which op when, by the makespan model, coloured by kind of op.

    Kinds are ordered by total time; those past the first nine are "other". Transfers that take time
    are thin bars below their target device. For schedules on machine types see ``plot_machines``;
    they have no platform. Raises ScheduleError for an invalid schedule.
    """
    if graph.capacity is not None and schedule.objective == "makespan":
        plot_machines(graph, schedule, path, title=title)
        return
    figures.check_suffix(path)
    times = step_times(graph, schedule, platform, clock="parallel")
    end = float(times.finish.max(initial=0.0))
    unit, factor = unit_of(end, TIME_UNITS)
    figure = figures.new_figure(10.5, min(1.7 + 0.62 * schedule.num_devices, 40.0))
    axes = figure.subplots()
    figures.style_axes(axes, grid="x")
    scaled = StepTimes(times.start / factor, times.finish / factor)
    handles = _draw_ops(axes, graph, schedule, scaled)
    handles |= _draw_transfers(axes, graph, schedule, scaled)
    handles |= _draw_bound(axes, schedule, factor)
    axes.set_xlim(0, 1.005 * end / factor or 1.0)
    axes.set_ylim(schedule.num_devices - 0.4, -0.55)
    labelled = range(0, schedule.num_devices, 1 + schedule.num_devices // 100)
    axes.set_yticks(labelled, [f"device {device}" for device in labelled])
    axes.set_xlabel(f"time [{unit}]")
    anchor = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.03), "handlelength": 1.0}
    figures.add_legend(axes, list(handles.values()), list(handles), **anchor)
    optimal = ", optimal" if schedule.objective == "makespan" and schedule.is_optimal else ""
    shown = f"{graph.name or 'graph'}: {human_time_us(end)}{optimal}"
    figures.set_title(figure, title if title is not None else shown)
    figures.save_figure(figure, path)


def plot_improvement_histogram(
    improvements: Sequence[float] | np.ndarray,
    path: str | os.PathLike,
    *,
    bin_width: float | None = None,
    title: str = "Improvement over BRKGA",
) -> None:
    """Draws how many graphs improve by how many percent (regal_transfer_learning, figure 4).

    Green bars right of zero are graphs where the cost is lower, red bars left of zero those where
    it is higher; ties (exactly 0) are omitted. ``bin_width`` in percent, by default a round
    number that makes at most about 30 bars.
    """
    figures.check_suffix(path)
    values = np.asarray(improvements, float)
    if values.size == 0 or not np.all(np.isfinite(values)):
        raise OptionError("an improvement histogram needs finite improvements, at least one")
    figure = figures.new_figure(7.0, 3.8)
    axes = figure.subplots()
    figures.style_axes(axes)
    width = bin_width or _round_up(float(np.ptp(np.append(values, 0.0))) / 30)
    better, worse = values[values > 0], values[values < 0]
    handles = [_draw_bars(axes, better, width, figures.GOOD)]
    handles += [_draw_bars(axes, worse, width, figures.BAD)]
    axes.axvline(0, color=figures.INK, linewidth=1)
    axes.set_xlabel("improvement [%]")
    axes.set_ylabel("graphs")
    axes.yaxis.get_major_locator().set_params(integer=True)
    ties = values.size - better.size - worse.size
    labels = [_share("better", better.size, values.size), _share("worse", worse.size, values.size)]
    labels.append(_share("ties, omitted", ties, values.size))
    handles += axes.plot([], [], " ")
    figures.add_legend(axes, handles, labels, loc="upper right")
    figures.set_title(figure, title)
    figures.save_figure(figure, path)


def plot_evaluation_limits(
    rows: Iterable[Mapping[str, Any]],
    path: str | os.PathLike,
    *,
    reference: str = "BRKGA 5K",
    title: str = "Improvement as the evaluation limit grows",
) -> None:
    """Draws average improvement against the evaluation limit (regal_transfer_learning, figure 5).

    ``rows`` have the columns method, evaluations, mean, low, high: percent over the reference, with
    the 95 % interval, drawn as a band where there is one.
    """
    figures.check_suffix(path)
    methods: dict[str, list[tuple[float, ...]]] = {}
    for row in rows:
        point = tuple(float(row[column]) for column in ("evaluations", "mean", "low", "high"))
        methods.setdefault(str(row["method"]), []).append(point)
    if not methods:
        raise OptionError("a plot of evaluation limits needs at least one row")
    figure = figures.new_figure(7.0, 4.2)
    axes = figure.subplots()
    figures.style_axes(axes, grid="both")
    axes.axhline(0, color=figures.MUTED, linewidth=1, linestyle=(0, (4, 3)))
    handles = []
    curves = [np.array(sorted(points)).T for points in methods.values()]
    styles = figures.line_styles([curve[:2] for curve in curves])
    for (limit, mean, low, high), color, style in zip(curves, _colors(), styles, strict=False):
        axes.fill_between(limit, low, high, color=color, alpha=0.16, linewidth=0)
        dots = {"marker": "o", "linewidth": 1.8, "markersize": 4.5}
        handles += axes.plot(limit, mean, color=color, linestyle=style, **dots)
    _label_limits(axes, sorted({point[0] for points in methods.values() for point in points}))
    axes.set_ylabel(f"average improvement over {figures.plain(reference)} [%]")
    figures.add_legend(axes, handles, list(methods), loc="best")
    figures.set_title(figure, title)
    figures.save_figure(figure, path)


def _draw_ops(axes: Any, graph: ComputationGraph, schedule: Schedule, times: StepTimes) -> dict:
    """Bars of the ops; returns a legend handle a kind."""
    steps = describe_steps(graph, schedule)
    kinds = by_kind(graph)
    outline = 0.4 if graph.num_ops <= 400 else 0.0
    handles = {}
    for kind, color in kinds.color.items():
        mine = (steps.tensor < 0) & (kinds.label[steps.op] == kind)
        device = steps.target[mine].astype(float)
        rows = (device - 0.4, device + 0.22)
        span = times.start[mine], times.finish[mine]
        handles[kind] = figures.draw_boxes(axes, *span, rows, color, outline=outline)
        texts = [graph.op_label(op) for op in steps.op[mine].tolist()]
        figures.label_boxes(axes, *span, rows, texts, float(times.finish.max(initial=0.0)))
    return handles


def _draw_transfers(axes: Any, graph, schedule: Schedule, times: StepTimes) -> dict:
    """Thin bars of the transfers that take time; returns a legend handle if there are any."""
    steps = describe_steps(graph, schedule)
    mine = (steps.tensor >= 0) & (times.finish > times.start)
    if not mine.any():
        return {}
    device = steps.target[mine].astype(float)
    rows = (device + 0.27, device + 0.36)
    start, finish = times.start[mine], times.finish[mine]
    boxes = figures.draw_boxes(axes, start, finish, rows, figures.INK, outline=0.0)
    return {"transfer": boxes}


def _draw_bound(axes: Any, schedule: Schedule, factor: float) -> dict:
    """A line at what is proven of the makespan; returns its legend handle if anything is."""
    if schedule.objective != "makespan" or schedule.lower_bound is None:
        return {}
    line = axes.axvline(schedule.lower_bound / factor, zorder=4, **BOUND_LINE)
    return {"optimal: no less time" if schedule.is_optimal else "lower bound": line}


def _round_up(value: float) -> float:
    """The next of ... 0.5, 1, 2, 5, 10, 20 ..."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value * (1 - 1e-9))


def _draw_bars(axes: Any, values: np.ndarray, width: float, color: str) -> Any:
    """A histogram of values of one sign, in bins that end at zero."""
    size = np.ceil(np.abs(values) / width - 1e-9).astype(int)
    counts = np.bincount(size, minlength=2)[1:]
    middle = (np.arange(len(counts)) + 0.5) * width * (-1.0 if np.any(values < 0) else 1.0)
    return axes.bar(middle, counts, width=width * 0.92, color=color)


def _share(label: str, count: int, total: int) -> str:
    return f"{label}: {count} ({100 * count / total:.1f} %)"


def _label_limits(axes: Any, limits: Sequence[float]) -> None:
    """A logarithmic axis with a tick at each evaluation limit: 500, 5K, 50K."""
    axes.set_xscale("log")
    axes.set_xticks(limits, [f"{n / 1000:g}K" if n >= 1000 else f"{n:g}" for n in limits])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("evaluation limit")


def _colors() -> itertools.cycle:
    return itertools.cycle(figures.SERIES)

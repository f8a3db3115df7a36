"""Plots of schedules; every one is written to a .png, .svg or .pdf file.

All raise OptionError for another suffix or nothing to draw, MissingDependencyError without
matplotlib, and RegalError where the place can't be written.
"""

import os
from typing import Any

from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Schedule
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import figures
from regal_jax.reporting.gantt import plot_machines
from regal_jax.reporting.memory_plot import BOUND_LINE, plot_memory
from regal_jax.reporting.op_colors import by_kind
from regal_jax.reporting.step_times import StepTimes, describe_steps, step_times
from regal_jax.reporting.tables import TIME_UNITS, human_time_us, unit_of

__all__ = ["plot_gantt", "plot_memory"]


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

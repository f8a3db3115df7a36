"""A schedule on machine types as a Gantt chart: which op runs when, on how many units."""

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from regal_jax.environments.rcpsp.bounds import makespan_bound
from regal_jax.environments.rcpsp.checker import evaluate_machines
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import figures
from regal_jax.reporting.lanes import (
    UNITS_SHOWN,
    op_times,
    ops_of_type,
    rows_of,
    units_in_use,
    units_of,
)
from regal_jax.reporting.memory_plot import BOUND_LINE
from regal_jax.reporting.op_colors import OpColors, by_kind_or_job
from regal_jax.reporting.statistics import gap_percent
from regal_jax.reporting.tables import TIME_UNITS, human_percent, human_time_us, unit_of

AREA_ROWS = (2.0, 8.0)
"""Least and greatest height of a type that is drawn as an area, in heights of a unit."""
ALL_AREAS_ROWS = 40.0
"""Height that areas share, if it isn't too little for them."""
STRIP_ROWS = 0.45
"""Height for all ops of a type that take no units, in heights of a unit."""
GAP_ROWS = 0.5
UNIT_MARGIN = 0.06
LABELLED_TYPES = 100
OUTLINED_OPS = 400
SLIVER = 0.0015
"""Least width of an outlined op, as a share of the makespan; about two pixels."""
BACKGROUND = "#f3f4f6"

_Boxes = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Ops int64[K], and the rows that the box of each is between: float64[K] each."""


class _Band(NamedTuple):
    """Where a machine type is drawn, in rows from the top.

    Attributes:
      machine: the type. capacity: its units.
      busy, unitless: int64 ops, see ``TypeOps``.
      top, bottom: between them the units; ops without units down to ``end``.
    """

    machine: int
    capacity: int
    busy: np.ndarray
    unitless: np.ndarray
    top: float
    bottom: float
    end: float

    @property
    def is_area(self) -> bool:
        return self.capacity > UNITS_SHOWN

    @property
    def unit_rows(self) -> float:
        """Height of one unit."""
        return (self.bottom - self.top) / self.capacity


class _Picture(NamedTuple):
    """Everything that is drawn; start and finish are float64[O] in the unit of the axis."""

    graph: ComputationGraph
    schedule: Schedule
    start: np.ndarray
    finish: np.ndarray
    bands: list[_Band]
    colors: OpColors


def plot_machines(
    graph: ComputationGraph,
    schedule: Schedule,
    path: str | os.PathLike,
    *,
    title: str | None = None,
) -> None:
    """Draws which op runs when on each machine type, coloured by kind, or by job where the graph
    has no kinds.

    Types of up to 16 units have a row a unit, and an op is drawn on each that it takes, the lowest
    free ones. For types of more units it is how many are in use over time, by colour, below a line
    at their capacity. Ops that take no units, having no demand or no duration, are thin bars and
    ticks below their type. Colours of more than ten jobs repeat.

    Raises:
      ScheduleError: for an invalid schedule. OptionError: for another suffix, or no op.
      MissingDependencyError: without matplotlib. RegalError: where the place can't be written.
    """
    figures.check_suffix(path)
    if graph.num_ops == 0:
        raise OptionError("a Gantt chart needs at least one op")
    end = evaluate_machines(graph, schedule)
    bound = makespan_bound(graph) if schedule.lower_bound is None else schedule.lower_bound
    unit, factor = unit_of(end, TIME_UNITS)
    start, finish = op_times(graph, schedule)
    bands = _bands(graph, schedule)
    colors = by_kind_or_job(graph)
    picture = _Picture(graph, schedule, start / factor, finish / factor, bands, colors)
    rows = bands[-1].end
    figure = figures.new_figure(10.5, float(np.clip(1.3 + 0.3 * rows, 2.6, 40.0)))
    axes = figure.subplots()
    figures.style_axes(axes, grid="x")
    _draw_backgrounds(axes, picture, end / factor)
    _draw_units(axes, picture)
    _draw_areas(axes, picture)
    _draw_unitless(axes, picture)
    line = axes.axvline(bound / factor, zorder=4, **BOUND_LINE)
    axes.set_xlim(0, 1.005 * end / factor or 1.0)
    axes.set_ylim(rows + 0.2, -0.2)
    _label_types(axes, bands)
    axes.set_xlabel(f"time [{unit}]")
    _add_legend(axes, colors, line, "lower bound" if bound < end else "optimal: no less time")
    figures.set_title(figure, title if title is not None else _title(graph, end, bound))
    figures.save_figure(figure, path)


def _title(graph: ComputationGraph, makespan: float, bound: float) -> str:
    gap = float(gap_percent(makespan, bound))
    over = f"{human_percent(gap)} over the lower bound, {human_time_us(bound)}"
    known = over if gap > 1e-7 else "optimal"
    return f"{graph.name or 'graph'}: makespan {human_time_us(makespan)} ({known})"


def _bands(graph: ComputationGraph, schedule: Schedule) -> list[_Band]:
    """A band for each type, from the top down."""
    assert graph.capacity is not None
    num_areas = max(int(np.sum(graph.capacity > UNITS_SHOWN)), 1)
    area_rows = float(np.clip(ALL_AREAS_ROWS / num_areas, *AREA_ROWS))
    bands: list[_Band] = []
    for machine, capacity in enumerate(graph.capacity.tolist()):
        ops = ops_of_type(graph, schedule, machine)
        top = bands[-1].end + GAP_ROWS if bands else 0.0
        bottom = top + (area_rows if capacity > UNITS_SHOWN else capacity)
        end = bottom + (STRIP_ROWS if len(ops.unitless) else 0.0)
        bands.append(_Band(machine, capacity, *ops, top, bottom, end))
    return bands


def _draw_backgrounds(axes: Any, picture: _Picture, end: float) -> None:
    """All units of all types from 0 to the end, so that idle ones are seen."""
    top, bottom = np.array([(band.top, band.bottom) for band in picture.bands]).T
    zero = np.zeros(len(top))
    background = figures.draw_boxes(axes, zero, zero + end, (top, bottom), BACKGROUND, outline=0.0)
    background.set_zorder(0)


def _draw_units(axes: Any, picture: _Picture) -> None:
    """Ops on the rows of their units."""
    parts = []
    for band in picture.bands:
        if not band.is_area:
            lanes = units_of(picture.graph, picture.schedule, band.busy)
            row = band.top + lanes.lane
            parts.append((lanes.op, row + UNIT_MARGIN, row + 1.0 - UNIT_MARGIN))
    outlined = picture.graph.num_ops <= OUTLINED_OPS
    least = SLIVER * picture.finish.max() if outlined else 0.0
    for color, ops, rows in _boxes_by_color(picture, parts):
        start = picture.start[ops]
        finish = np.maximum(picture.finish[ops], start + least)
        figures.draw_boxes(axes, start, finish, rows, color, outline=0.4 if outlined else 0.0)
        texts = [picture.graph.op_label(op) for op in ops.tolist()]
        figures.label_boxes(axes, start, finish, rows, texts, picture.finish.max())


def _draw_unitless(axes: Any, picture: _Picture) -> None:
    """Ops without units, thinner the more run side by side; outlined, so that those of no duration
    are seen."""
    parts = []
    for band in picture.bands:
        lanes = rows_of(picture.graph, picture.schedule, band.unitless)
        height = (STRIP_ROWS - 0.1) / max(lanes.num_lanes, 1)
        low = band.bottom + 0.1 + height * lanes.lane
        parts.append((lanes.op, low, low + 0.8 * height))
    for color, ops, rows in _boxes_by_color(picture, parts):
        span = picture.start[ops], picture.finish[ops]
        figures.draw_boxes(axes, *span, rows, color, outline=0.8, edge=color)


def _boxes_by_color(picture: _Picture, parts: list[_Boxes]) -> Iterator[tuple]:
    """(colour, ops, (low, high)) for each colour of some boxes."""
    if not parts:
        return
    op, low, high = (np.concatenate(column) for column in zip(*parts, strict=True))
    for label, color in picture.colors.color.items():
        mine = picture.colors.label[op] == label
        ops = op[mine]
        if len(ops):
            yield color, ops, (low[mine], high[mine])


def _draw_areas(axes: Any, picture: _Picture) -> None:
    """Units in use over time, one colour upon the other, and the capacity."""
    place = {label: index for index, label in enumerate(picture.colors.color)}
    group = np.array([place[label] for label in picture.colors.label.tolist()])
    for band in picture.bands:
        if not band.is_area:
            continue
        ops = band.busy
        span = picture.start[ops], picture.finish[ops]
        used = units_in_use(*span, picture.graph.demand[ops], group[ops], len(place))
        upper = band.bottom - band.unit_rows * np.cumsum(used.units, axis=0)
        lower = np.vstack([np.full((1, len(used.times)), band.bottom), upper[:-1]])
        for color, *edges in zip(picture.colors.color.values(), lower, upper, strict=True):
            axes.fill_between(used.times, *edges, step="post", color=color, linewidth=0)
        axes.axhline(band.top, color=figures.INK, linewidth=1)


def _label_types(axes: Any, bands: list[_Band]) -> None:
    """Names of the types at their rows; beside areas a scale of units."""
    machines = all(band.capacity == 1 for band in bands)
    ticks = {}
    for band in bands[:: 1 + len(bands) // LABELLED_TYPES]:
        units = "" if band.capacity == 1 else f", {band.capacity:,} units"
        name = f"{'machine' if machines else 'type'} {band.machine}{units}"
        if band.is_area:
            half = band.capacity // 2
            ticks[band.bottom - band.unit_rows * half] = f"{half:,}"
            ticks |= {band.bottom: "0", band.top: name}
        else:
            ticks[(band.top + band.bottom) / 2] = name
    axes.set_yticks(list(ticks), list(ticks.values()))


def _add_legend(axes: Any, colors: OpColors, bound: Any, label: str) -> None:
    from matplotlib.patches import Patch

    handles = {label: Patch(color=color) for label, color in colors.color.items()}
    handles[label] = bound
    anchor = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "handlelength": 1.0}
    figures.add_legend(axes, list(handles.values()), list(handles), **anchor)

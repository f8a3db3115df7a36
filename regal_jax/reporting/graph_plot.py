"""A picture of one computation graph: its structure, its memory in program order, its op kinds."""

import os
from collections import Counter
from typing import Any, Literal

import numpy as np

from regal_jax.environments.placement import bounds, checker
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import OptionError
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.kind_groups import GROUPS, group_of
from regal_jax.reporting import figures, graph_layout
from regal_jax.reporting.graph_layout import Layout
from regal_jax.reporting.tables import BYTE_UNITS, human_bytes, unit_of

SHOWN_KINDS = 14
SHOWN_EDGES = 30_000
LABELLED_OPS = 30
GROUP_COLORS = (*figures.SERIES[:6], figures.GREY)
"""A colour for each of ``kind_groups.GROUPS``."""

SizeBy = Literal["bytes", "duration"]


def plot_graph(
    graph: ComputationGraph,
    path: str | os.PathLike,
    *,
    size_by: SizeBy = "bytes",
    title: str | None = None,
) -> None:
    """Draws a graph in layers; below it the memory in use in program order on one device, and how
    many ops there are of each kind.

    Dots are ops, coloured by what they do, larger with the bytes of their outputs (or with their
    ``size_by="duration"``); lines are tensors, wider with their bytes, bent the more layers they
    skip. Of more than 30,000 edges those of the largest tensors are drawn. Small graphs have
    labels.

    Raises:
      OptionError: for another suffix, an unknown ``size_by``, or a graph without ops.
      MissingDependencyError: without matplotlib. RegalError: where the place can't be written.
    """
    figures.check_suffix(path)
    if size_by not in ("bytes", "duration"):
        raise OptionError(f"size_by must be bytes or duration, got {size_by!r}")
    if graph.num_ops == 0:
        raise OptionError("a graph plot needs at least one op")
    layout = graph_layout.layered(graph)
    height = _height(layout)
    figure = figures.new_figure(13.5, height + 3.3)
    figure.get_layout_engine().set(h_pad=0.08)
    figures.set_title(figure, title if title is not None else _title(graph))
    top, bottom = figure.subfigures(2, 1, height_ratios=[height, 3.0])
    _draw_structure(top.subplots(), graph, layout, size_by)
    memory, kinds = bottom.subplots(1, 2, width_ratios=[2.0, 1.0])
    _draw_memory(memory, graph)
    _draw_kinds(kinds, graph)
    figures.save_figure(figure, path)


def _title(graph: ComputationGraph) -> str:
    depth = int(precedence.levels(graph).max(initial=-1)) + 1
    name = figures.plain(graph.name or "graph", 52)
    sizes = f"{graph.num_ops:,} ops, {graph.num_tensors:,} tensors"
    return f"{name}: {sizes}, {human_bytes(int(graph.size.sum()))}, depth {depth:,}"


def _height(layout: Layout) -> float:
    """Inches for the drawing: less for graphs that are little more than a chain."""
    return float(np.clip(1.6 + 0.9 * np.ptp(layout.row), 2.0, 5.2))


def _draw_structure(axes: Any, graph: ComputationGraph, layout: Layout, size_by: SizeBy) -> None:
    """Ops and tensors, with a legend of the groups."""
    group = _groups(graph)
    axes.set_axis_off()
    axes.margins(0.02, 0.06 if graph.num_ops > LABELLED_OPS else 0.2)
    _draw_edges(axes, graph, layout)
    amount = graph.outputs.sums(graph.size) if size_by == "bytes" else graph.duration
    area = _dot_areas(amount, layout)
    handles = {}
    for index in np.unique(group).tolist():
        mine = np.flatnonzero(group == index)
        style = {"color": GROUP_COLORS[index], "edgecolor": "white", "zorder": 3}
        width = np.clip(np.sqrt(area[mine]) / 14, 0.0, 0.8)
        x, y = layout.layer[mine], layout.row[mine]
        axes.scatter(x, y, s=area[mine], linewidth=width, **style)
        label = f"{GROUPS[index]} ({len(mine):,})" if graph.op_kinds else f"ops ({len(mine):,})"
        handles[label] = axes.plot([], [], "o", color=GROUP_COLORS[index], markersize=6)[0]
    if graph.num_ops <= LABELLED_OPS:
        _label_ops(axes, graph, layout)
    anchor = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "handletextpad": 0.1}
    options = anchor | {"columnspacing": 1.2, "borderaxespad": 0.1}
    figures.add_legend(axes, list(handles.values()), list(handles), ncols=len(GROUPS), **options)
    _caption(axes, size_by)


def _caption(axes: Any, size_by: SizeBy) -> None:
    dots = "bytes of outputs" if size_by == "bytes" else "duration"
    text = f"layers from left to right; dot: {dots}; line: bytes of the tensor, bent if it waits"
    place = {"xycoords": "axes fraction", "textcoords": "offset points", "xytext": (0, -8)}
    style = {"ha": "right", "va": "top", "size": 8, "color": figures.MUTED}
    axes.annotate(text, (1.0, 0.0), **place, **style)


def _groups(graph: ComputationGraph) -> np.ndarray:
    """int64[O]: the group of each op; one for all where kinds are unknown."""
    if not graph.op_kinds:
        return np.zeros(graph.num_ops, int)
    known = {kind: group_of(kind) for kind in set(graph.op_kinds)}
    return np.array([known[kind] for kind in graph.op_kinds])


def _dot_areas(amount: np.ndarray, layout: Layout) -> np.ndarray:
    """float64[O], points squared: with the root of the amount, scaled to the room of an op."""
    area_of_drawing = 900.0 * 330.0
    columns = int(layout.layer.max()) + 1
    crowd = max(len(layout.layer), columns**1.25)
    largest = np.clip(area_of_drawing / crowd * 0.22, 14.0, 520.0)
    share = np.sqrt(amount / max(float(amount.max()), 1e-30))
    return largest * (0.06 + 0.94 * share)


def _draw_edges(axes: Any, graph: ComputationGraph, layout: Layout) -> None:
    """The tensors as curves, one artist; wide and dark where large and few."""
    from matplotlib.collections import LineCollection

    edges = graph.edges
    size = graph.size[edges[:, 1]].astype(float)
    drawn = np.argsort(-size, kind="stable")[:SHOWN_EDGES][::-1]
    edges, size = edges[drawn], size[drawn]
    if not len(edges):
        return
    share = np.sqrt(size / max(float(size.max()), 1.0))
    crowd = float(np.clip((len(edges) / 60) ** -0.33, 0.16, 1.0))
    curves = LineCollection(
        list(_curves(layout, edges[:, 0], edges[:, 2])),
        linewidths=(0.5 + 2.4 * share) * np.sqrt(crowd),
        colors=[(0.35, 0.42, 0.52, alpha) for alpha in (0.42 + 0.38 * share) * crowd],
        zorder=1,
        capstyle="round",
    )
    axes.add_collection(curves)
    axes.update_datalim([(x, y) for curve in curves.get_segments() for x, y in curve[::16]])


def _curves(layout: Layout, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """float64[E, 33, 2]: S-shaped from op to op, bent upwards where layers are skipped."""
    t = np.linspace(0.0, 1.0, 33)
    x0, x1 = layout.layer[first][:, None], layout.layer[last][:, None]
    y0, y1 = layout.row[first][:, None], layout.row[last][:, None]
    height = max(float(np.ptp(layout.row)), 2.0)
    share = (x1 - x0 - 1.0) / max(float(layout.layer.max()), 1.0)
    bend = height * share**0.6 * (1.0 - (2.0 * t - 1.0) ** 2)
    y = y0 + (y1 - y0) * t**2 * (3.0 - 2.0 * t) + bend
    return np.stack([x0 + (x1 - x0) * t, y], axis=2)


def _label_ops(axes: Any, graph: ComputationGraph, layout: Layout) -> None:
    """Each op's kind below it, shortened to the room between layers."""
    letters = int(np.clip(190 / (layout.layer.max() + 1), 7, 24))
    for op in range(graph.num_ops):
        label = graph.op_kinds[op] if graph.op_kinds else graph.op_label(op)
        axes.annotate(
            figures.plain(label, letters),
            (layout.layer[op], layout.row[op]),
            xytext=(0, -15),
            textcoords="offset points",
            ha="center",
            va="top",
            size=8,
            color=figures.INK,
            zorder=4,
        )


def _draw_memory(axes: Any, graph: ComputationGraph) -> None:
    """Memory in use during each step on one device, the peak marked, above the lower bound."""
    usage, row = _memory_in_program_order(graph)
    peak, bound = int(usage.max()), bounds.peak_memory_bound(graph, 1)
    unit, factor = unit_of(max(peak, 1), BYTE_UNITS)
    figures.style_axes(axes)
    edges = np.arange(len(usage) + 1)
    axes.stairs(usage / factor, edges, fill=True, color=figures.SERIES[0], alpha=0.2, linewidth=0)
    axes.stairs(usage / factor, edges, baseline=None, color=figures.SERIES[0], linewidth=1.3)
    axes.axhline(bound / factor, color=figures.BAD, linestyle=(0, (4, 3)), linewidth=1)
    dot = {"color": figures.SERIES[0], "markersize": 6, "markeredgecolor": "white", "zorder": 5}
    axes.plot([row + 0.5], [peak / factor], "o", **dot)
    axes.set_xlim(0, len(usage))
    axes.set_ylim(0, max(1.14 * max(peak, bound) / factor, 1e-9))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("step, program order on one device")
    axes.set_ylabel(f"memory in use [{unit}]")
    known = f"lower bound (dashed) {human_bytes(bound)}" if peak > bound else "optimal (dashed)"
    text = f"peak {human_bytes(peak)} at step {row:,}; {known}"
    axes.set_title(text, loc="left", size=9, color=figures.INK)


def _memory_in_program_order(graph: ComputationGraph) -> tuple[np.ndarray, int]:
    """(bytes in use at the start and during each step, int64[O + 1], and the row of the peak)."""
    schedule = Schedule(
        graph=graph.name,
        objective="peak_memory",
        num_devices=1,
        placement=np.zeros(graph.num_ops, np.int32),
        steps=graph.topological_order.astype(np.int64),
    )
    timeline = checker.memory_timeline(graph, schedule)
    return timeline.usage[:, 0], int(timeline.peak_row[0])


def _draw_kinds(axes: Any, graph: ComputationGraph) -> None:
    """How many ops of each kind, the most frequent first, the rest in one bar."""
    counts = Counter(graph.op_kinds or ["unknown kind"] * graph.num_ops)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown, rest = ranked[:SHOWN_KINDS], ranked[SHOWN_KINDS:]
    colors = [GROUP_COLORS[group_of(kind) if graph.op_kinds else 0] for kind, _ in shown]
    if rest:
        shown.append((f"{len(rest)} other kinds", sum(count for _, count in rest)))
        colors.append(figures.GRID)
    figures.style_axes(axes, grid="x")
    axes.grid(False)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="x", bottom=False, labelbottom=False)
    places = range(len(shown))
    bars = axes.barh(places, [count for _, count in shown], color=colors, height=0.72)
    axes.bar_label(bars, [f"{count:,}" for _, count in shown], padding=3, size=8, color=figures.INK)
    axes.set_yticks(places, [figures.plain(kind, 30) for kind, _ in shown])
    axes.tick_params(axis="y", length=0, labelsize=8, labelcolor=figures.INK)
    axes.set_ylim(max(len(shown), 6) - 0.4, -0.6)
    axes.set_xlim(0, 1.16 * max(count for _, count in shown))
    title = f"ops by kind ({len(counts)})" if graph.op_kinds else "ops by kind"
    axes.set_title(title, loc="left", size=9, color=figures.INK)

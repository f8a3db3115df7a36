"""A graph as an interactive HTML page: pan, zoom, search, names, memory by colour, a schedule.

The page needs no network: styles, script and data stand in the file.
"""

import os
from typing import Any

import numpy as np

from regal_jax.environments.base import has_machines
from regal_jax.environments.recompute.bounds import peak_bound
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.kind_groups import GROUPS, group_of
from regal_jax.reporting import graph_layout, html_page
from regal_jax.reporting.html_page import differences, indexed
from regal_jax.reporting.lifetimes import lifetimes
from regal_jax.reporting.step_times import describe_steps
from regal_jax.reporting.tables import human_bytes, human_time_us


def write_graph_page(
    graph: ComputationGraph, path: str | os.PathLike, schedule: Schedule | None = None
) -> None:
    """Writes the page of a graph and, if given, one of its schedules, atomically.

    With a schedule one can step through it: what runs, what is in memory where, by size. Schedules
    on machine types have no memory; their ops come in the order of their starts.

    Raises:
      ScheduleError: for an invalid schedule. OptionError: for a graph without ops. RegalError:
        where the place can't be written.
    """
    if graph.num_ops == 0:
        raise OptionError("a page of a graph needs at least one op")
    values = {
        "title": graph.name or "graph",
        "headline": _headline(graph, schedule),
        "scheduled": schedule is not None,
        "data": page_data(graph, schedule),
    }
    html_page.write_page(__package__, values, path, template="graph_page.html")


def page_data(graph: ComputationGraph, schedule: Schedule | None) -> dict[str, Any]:
    """What the script reads. Ascending numbers are written as differences."""
    x, y = _places(graph)
    kinds = list(graph.op_kinds) or ["op"] * graph.num_ops
    groups = [group_of(kind) for kind in dict.fromkeys(kinds)]
    names = graph.extra.get("tensors", {}).get("name") or []
    return {
        "groups": list(GROUPS),
        "ops": {
            "name": [graph.op_label(op) for op in range(graph.num_ops)],
            "kind": indexed(kinds) | {"group": groups},
            "x": np.round(x, 2).tolist(),
            "y": y.tolist(),
            "duration": np.round(graph.duration, 4).tolist(),
            "workspace": graph.workspace.tolist(),
        },
        "tensors": {
            "name": [str(name or "") for name in names],
            "producer": differences(graph.producer.tolist()),
            "size": graph.size.tolist(),
            "persistent": np.flatnonzero(graph.persistent).tolist(),
            "count": np.diff(graph.consumers.offsets).tolist(),
            "consumer": differences(graph.consumers.values.tolist()),
        },
        "schedule": None if schedule is None else _schedule(graph, schedule),
    }


def _places(graph: ComputationGraph) -> tuple[np.ndarray, np.ndarray]:
    """(x float64[O], y int[O]): columns, at least 1 apart in a row, and rows of a drawing."""
    layout = graph_layout.layered(graph)
    widest = int(np.bincount(layout.layer).max())
    x = layout.row * widest**0.3
    return x - x.min(), layout.layer - layout.layer.min()


def _schedule(graph: ComputationGraph, schedule: Schedule) -> dict[str, Any]:
    steps, on_machines = describe_steps(graph, schedule), has_machines(graph, schedule.objective)
    bound = schedule.lower_bound if schedule.objective == "peak_memory" else None
    if bound is None and not on_machines:
        bound = float(peak_bound(graph, schedule))
    data = {
        "method": schedule.method,
        "machines": on_machines,
        "devices": schedule.num_devices,
        "device": schedule.placement.tolist(),
        "op": steps.op.tolist(),
        "tensor": steps.tensor.tolist(),
        "target": steps.target.tolist(),
        "bound": bound,
        "lives": {name: [] for name in ("tensor", "device", "first", "last")},
    }
    if not on_machines:
        lives = lifetimes(graph, schedule)._asdict()
        data["lives"] = {name: differences(column.tolist()) for name, column in lives.items()}
    return data


def _headline(graph: ComputationGraph, schedule: Schedule | None) -> str:
    size = f"{graph.num_ops:,} ops, {graph.num_tensors:,} tensors"
    if schedule is None:
        return f"{size}, {human_bytes(int(graph.size.sum()))}."
    cost = (
        f"makespan {human_time_us(schedule.makespan)}"
        if schedule.objective == "makespan"
        else f"peak memory {human_bytes(schedule.cost)}"
    )
    optimal = ", optimal" if schedule.is_optimal else ""
    where = f"{schedule.num_devices} device{'s' * (schedule.num_devices > 1)}"
    return f"{size}. Schedule by {schedule.method or 'unknown'} on {where}: {cost}{optimal}."

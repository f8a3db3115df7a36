"""What a policy sees of a graph and a known schedule of it: features of ops, devices and edges."""

from typing import NamedTuple

import chex
import numpy as np

from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.schedule import Schedule
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.features.placement import (
    logarithmic,
    memory_by_op,
    pad,
    relative_levels,
)


@chex.dataclass(frozen=True)
class ScheduleInputs:
    """A graph and a schedule of it, padded to a GraphShape (O ops, T tensors, E edges).

    Edges are as in ``PolicyInputs``.

    Attributes:
      nodes: float32[O, 22]. edges: float32[E, 4]. devices: float32[O, D, 4], of an op on a device.
      senders, receivers: int32[E]. real: bool[O], False for padding.
      device: int32[O], where the schedule has an op.
      priority: float32[O + T * D], of its chromosome.
      reader: int32[T], the tensor's reader that is first in the schedule; O without any.
    """

    nodes: chex.Array
    edges: chex.Array
    devices: chex.Array
    senders: chex.Array
    receivers: chex.Array
    real: chex.Array
    device: chex.Array
    priority: chex.Array
    reader: chex.Array


class GraphPart(NamedTuple):
    """What doesn't depend on the schedule.

    Attributes:
      nodes: float[O, 10], sizes, durations and levels. edge_sizes: float[E, 2].
      tail: float[O], us from an op's end to the end of the longest path behind it.
    """

    nodes: np.ndarray
    edge_sizes: np.ndarray
    tail: np.ndarray


def graph_part(graph: ComputationGraph) -> GraphPart:
    """Features of the graph alone: memory relative to the largest of any op, on two scales;
    duration over the longest and over the sum; levels from sources and sinks over the depth."""
    memory = memory_by_op(graph)
    edge_size = graph.size[graph.edges[:, 1]].astype(np.float64)
    largest = max(memory.max(initial=0.0), edge_size.max(initial=0.0), 1.0)
    duration = graph.duration.astype(float)
    nodes = np.column_stack(
        [
            memory / largest,
            logarithmic(memory, largest),
            duration / max(duration.max(initial=0.0), 1e-30),
            duration / max(duration.sum(), 1e-30) * max(graph.num_ops, 1) / 10.0,
            relative_levels(graph),
        ]
    )
    edges = np.column_stack([edge_size / largest, logarithmic(edge_size, largest)])
    tail = precedence.bottom_levels(graph) - duration
    return GraphPart(nodes, edges, tail)


def schedule_inputs(
    problem: PlacementProblem, schedule: Schedule, part: GraphPart, left: float
) -> ScheduleInputs:
    """Features of a schedule of a problem's graph.

    Nodes have those of ``graph_part``, the op's place in the order, what the memory in use on its
    device at its step is of the fullest device's peak, what its own outputs are of that peak, its
    place relative to that peak's, its slack, what bytes it has from and for other devices, and
    the same for all: cost over lower bound, devices, ops, and the share ``left`` of the budget.
    """
    graph, shape = problem.graph, problem.shape
    at = np.argsort(schedule.ops_in_order())
    device = schedule.placement.astype(np.int64)
    use = _memory_use(graph, device, at, problem.num_devices)
    crosses = device[graph.edges[:, 0]] != device[graph.edges[:, 2]]
    nodes = np.column_stack(
        [
            part.nodes,
            _of_schedule(graph, schedule, part, at, device, use),
            _crossing(graph, crosses),
            np.tile(_of_all(problem, schedule, left), (graph.num_ops, 1)),
        ]
    )
    apart = np.abs(at[graph.edges[:, 0]] - at[graph.edges[:, 2]]) / max(graph.num_ops, 1)
    edges = np.column_stack([part.edge_sizes, crosses, apart])
    return ScheduleInputs(
        nodes=pad(nodes.astype(np.float32), shape.ops, 0),
        edges=pad(edges.astype(np.float32), shape.edges, 0),
        devices=pad(_of_devices(graph, device, use), shape.ops, 0),
        senders=pad(graph.edges[:, 0], shape.edges, shape.ops),
        receivers=pad(graph.edges[:, 2], shape.edges, shape.ops),
        real=np.arange(shape.ops) < graph.num_ops,
        device=pad(schedule.placement.astype(np.int32), shape.ops, 0),
        priority=problem.pad(problem.encode(schedule)[None])[0, shape.ops * problem.num_devices :],
        reader=pad(_first_readers(graph, at, shape.ops), shape.tensors, shape.ops),
    )


def _memory_use(graph: ComputationGraph, device, at, num_devices: int) -> np.ndarray:
    """float[O, D]: bytes in use at each place of the order, a tensor from its first use on a device
    to the last (a copy's exact step is not looked at; workspaces count at their op)."""
    count = graph.num_ops
    first = np.full((graph.num_tensors, num_devices), count, np.int64)
    last = np.full((graph.num_tensors, num_devices), -1, np.int64)
    made = np.flatnonzero(graph.producer >= 0)
    producer = graph.producer[made]
    np.minimum.at(first, (made, device[producer]), at[producer])
    np.maximum.at(last, (made, device[producer]), at[producer])
    tensor, reader = graph.consumers.row_of_value(), graph.consumers.values
    np.minimum.at(first, (tensor, device[reader]), at[reader])
    np.maximum.at(last, (tensor, device[reader]), at[reader])
    where = device[graph.producer[tensor]]
    away = (graph.producer[tensor] >= 0) & (where != device[reader])
    np.maximum.at(last, (tensor[away], where[away]), at[reader[away]])
    used = last >= 0
    given = (graph.producer < 0)[:, None] & used
    first = np.where(given, 0, first)
    last = np.where(graph.persistent[:, None] & used, count - 1, last)
    change = np.zeros((count + 1, num_devices))
    rows, columns = np.nonzero(used)
    np.add.at(change, (first[rows, columns], columns), graph.size[rows])
    np.add.at(change, (last[rows, columns] + 1, columns), -graph.size[rows].astype(float))
    use = np.cumsum(change, axis=0)[:count]
    np.add.at(use, (at, device), graph.workspace)
    return use


def _of_schedule(graph, schedule: Schedule, part: GraphPart, at, device, use) -> np.ndarray:
    """float[O, 6]: place, pressure, share of the peak, before or after it, load, slack."""
    count, peak = graph.num_ops, max(use.max(initial=0.0), 1.0)
    if not count:
        return np.zeros((0, 6))
    when, full = np.unravel_index(int(use.argmax()), use.shape)
    there = np.zeros(graph.num_tensors, bool)
    tensor, reader = graph.consumers.row_of_value(), graph.consumers.values
    there[tensor[(at[reader] >= when) & (device[reader] == full)]] = True
    blame = np.zeros(count)
    held = np.flatnonzero(there & (graph.producer >= 0))
    held = held[at[graph.producer[held]] <= when]
    np.add.at(blame, graph.producer[held], graph.size[held])
    start = schedule.start if schedule.start is not None else np.zeros(count)
    span = max(schedule.makespan, 1e-30)
    slack = 1.0 - (start + graph.duration + part.tail) / span
    if schedule.start is None:
        slack = np.zeros(count)
    return np.column_stack(
        [
            at / max(count - 1, 1),
            use[at, device] / peak,
            blame / peak,
            (at - when) / count,
            use.max(axis=0)[device] / peak,
            slack,
        ]
    )


def _crossing(graph: ComputationGraph, crosses: np.ndarray) -> np.ndarray:
    """float[O, 2]: which part of an op's bytes comes from, and goes to, other devices."""
    size = graph.size[graph.edges[:, 1]].astype(float)
    sides = []
    for end in (2, 0):
        ends = graph.edges[:, end]
        total = np.bincount(ends, size, graph.num_ops)
        sides.append(np.bincount(ends, size * crosses, graph.num_ops) / np.maximum(total, 1.0))
    return np.column_stack(sides)


def _of_all(problem: PlacementProblem, schedule: Schedule, left: float) -> np.ndarray:
    gap = np.log(max(schedule.cost, 1e-30) / max(problem.lower_bound, 1e-30))
    ops = np.log10(max(problem.graph.num_ops, 1)) / 4.0
    return np.array([np.clip(gap, 0.0, 2.0), np.log2(problem.num_devices) / 3.0, ops, left])


def _of_devices(graph: ComputationGraph, device, use) -> np.ndarray:
    """float32[O, D, 4]: whether the op is there, which part of its neighbours' bytes, how full that
    device gets, and which part of all durations it has (over the even part)."""
    num_devices, peak = use.shape[1], max(use.max(initial=0.0), 1.0)
    here = np.eye(num_devices)[device]
    size = np.maximum(graph.size[graph.edges[:, 1]].astype(float), 1.0)
    near = np.zeros((graph.num_ops, num_devices))
    np.add.at(near, (graph.edges[:, 0], device[graph.edges[:, 2]]), size)
    np.add.at(near, (graph.edges[:, 2], device[graph.edges[:, 0]]), size)
    near /= np.maximum(near.sum(axis=1, keepdims=True), 1.0)
    work = np.bincount(device, graph.duration.astype(float), num_devices)
    work = work / max(work.sum(), 1e-30) * num_devices
    of_device = np.stack([use.max(axis=0, initial=0.0) / peak, work], axis=1)
    rows = np.broadcast_to(of_device, (graph.num_ops, num_devices, 2))
    return np.concatenate([here[..., None], near[..., None], rows], axis=2).astype(np.float32)


def _first_readers(graph: ComputationGraph, at: np.ndarray, none: int) -> np.ndarray:
    tensor, reader = graph.consumers.row_of_value(), graph.consumers.values
    found = np.full(graph.num_tensors, none, np.int32)
    latest_first = np.argsort(-at[reader], kind="stable")
    found[tensor[latest_first]] = reader[latest_first]
    return found

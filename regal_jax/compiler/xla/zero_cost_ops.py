"""Ops that take no memory, drawn to the op they wait for, so that a search has fewer to order.

Views, in-place calls and bookkeeping make nothing and need no workspace. Run as soon as they can
be, they never raise the use of one device, and what they were the last to read is freed sooner. So
some order of least peak runs each of them right after the only op it waits for, or before all ops
if it waits for none.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from regal_jax.graphs.computation_graph import ComputationGraph


class PackedGraph(NamedTuple):
    """A graph without most of its free ops, of the same least peak memory on one device.

    Attributes:
      graph: groups of the original's ops, as ops, by the first op of each.
      groups: the original's ops that each stands for, in the order they run in.
      start: the group of those that wait for nothing, None if there are none.
    """

    graph: ComputationGraph
    groups: tuple[tuple[int, ...], ...]
    start: int | None

    def unpacked(self, order: Iterable[int]) -> np.ndarray:
        """int64[O]: the order of the original's ops from one of the groups, ``start`` at first."""
        by_start = sorted(order, key=lambda group: group != self.start)
        return np.array([op for group in by_start for op in self.groups[group]], np.int64)


def pack(graph: ComputationGraph) -> PackedGraph:
    """A graph whose ops are numbered in an order they can run in, without its free ops.

    Tensors and their sizes are kept, but for those of size 0 that nothing outside a group reads.
    """
    leader, start = _leaders(graph)
    kept = np.flatnonzero(leader == np.arange(graph.num_ops))
    number = np.zeros(graph.num_ops, np.int32)
    number[kept] = np.arange(len(kept))
    group = number[leader]
    members: list[list[int]] = [[] for _ in kept]
    for op, own in enumerate(group.tolist()):
        members[own].append(op)
    packed = _merged(graph, group, kept)
    return PackedGraph(packed, tuple(map(tuple, members)), None if start < 0 else int(group[start]))


def _leaders(graph: ComputationGraph) -> tuple[np.ndarray, int]:
    """int32[O]: the first op of each op's group; the first that waits for nothing, or -1."""
    leader = np.arange(graph.num_ops, dtype=np.int32)
    start = -1
    free = (graph.outputs.sums(graph.size) == 0) & (graph.workspace == 0)
    for op in np.flatnonzero(free).tolist():
        producers = graph.producer[graph.inputs.row(op)]
        waits_for = set(leader[producers[producers >= 0]].tolist()) - {start}
        if not waits_for:
            start = op if start < 0 else start
            leader[op] = start
        elif len(waits_for) == 1:
            leader[op] = waits_for.pop()
    return leader, start


def _merged(graph: ComputationGraph, group: np.ndarray, kept: np.ndarray) -> ComputationGraph:
    """The graph of the groups: op ``o`` belongs to ``group[o]``."""
    producer = [int(group[op]) if op >= 0 else -1 for op in graph.producer.tolist()]
    rows = [set(group[graph.consumers.row(t)].tolist()) for t in range(graph.num_tensors)]
    consumers = [sorted(row - {own}) for row, own in zip(rows, producer, strict=True)]
    used = [t for t in range(graph.num_tensors) if graph.size[t] or consumers[t]]
    return ComputationGraph.create(
        num_ops=len(kept),
        producer=[producer[t] for t in used],
        size=graph.size[used],
        persistent=graph.persistent[used],
        consumers=[consumers[t] for t in used],
        duration=graph.duration[kept],
        workspace=graph.workspace[kept],
        name=graph.name,
    )

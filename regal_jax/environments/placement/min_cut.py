"""Lower bounds of peak memory by minimum cuts, and their certificates.

When op v runs, a down-set S of ops has run that holds v's ancestors and neither v nor what descends
from it. In memory, on all devices together, are at least f(S), the bytes that S made (or that were
there from the start) and ops outside S still read, with what persists; then v's outputs and its
workspace. The least f(S) over those S is a minimum cut of a network with a node for each op and
each tensor:

- producer -> tensor, of its bytes; without a producer the arc comes from the start, and a tensor
  that persists is an arc from its producer to the end instead;
- tensor -> its readers and op -> the producers of what it reads, without limit: where S reads, it
  has what it reads.

The bound is the largest over v. Every flow from v's ancestors to v and its descendants is at most
the cut, so a flow is a certificate, which takes linear time to check. D devices share one order, so
that one of them holds at least a D-th.
"""

import dataclasses
import heapq

import numpy as np

from regal_jax.errors import BoundError, OptionError
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph, ragged_rows
from regal_jax.native import max_flow


@dataclasses.dataclass(frozen=True, eq=False)
class CutBound:
    """No order of a graph's ops needs less than ``num_bytes`` on all devices together.

    Attributes:
      num_bytes: the bound.
      op: where they are in memory; -1 if nothing is.
      flow: int64[A], along the arcs of ``arcs_of(graph)``, from op's ancestors to its descendants.
      is_exact: whether it is the largest of all such cuts; otherwise the search ended before.
    """

    num_bytes: int
    op: int
    flow: np.ndarray
    is_exact: bool


@dataclasses.dataclass(frozen=True, eq=False)
class _Arcs:
    """The network; nodes are ops, tensors, then START and END."""

    tail: np.ndarray  # int32[A]
    head: np.ndarray  # int32[A]
    capacity: np.ndarray  # int64[A]
    num_nodes: int


def min_cut_bound(
    graph: ComputationGraph, *, enough: int | None = None, most_flows: int | None = None
) -> CutBound:
    """The largest cut over the ops, which are tried in the order of what they need in known orders.

    Args:
      graph: the graph.
      enough: stop at a bound of so many bytes, such as a known peak: more there can't be.
      most_flows: ops to try at most, None for all that matter.

    Raises OptionError for a limit below 1.
    """
    if most_flows is not None and most_flows < 1:
        raise OptionError(f"most_flows must be at least 1, got {most_flows}")
    if not graph.num_ops:
        return CutBound(always_bytes(graph), -1, np.zeros(0, np.int64), True)
    network = Network(graph)
    at_most = step_bytes(graph, graph.topological_order)
    todo = [(-int(size), op) for op, size in enumerate(at_most)]
    heapq.heapify(todo)
    best, flows = CutBound(-1, -1, np.zeros(0, np.int64), False), 0
    while todo:
        size, op = heapq.heappop(todo)
        if -size > at_most[op]:  # less by now
            heapq.heappush(todo, (-int(at_most[op]), op))
            continue
        if at_most[op] <= best.num_bytes or (enough is not None and best.num_bytes >= enough):
            return dataclasses.replace(best, is_exact=True)
        if most_flows is not None and flows == most_flows:
            return best
        cut, below = network.least_cut(op)
        flows += 1
        np.minimum(at_most, network.bytes_after(cut, below), out=at_most)
        if cut + network.own[op] > best.num_bytes:
            best = CutBound(int(cut + network.own[op]), op, network.flow(), False)
    return dataclasses.replace(best, is_exact=True)


def check_cut(graph: ComputationGraph, bound: CutBound) -> None:
    """Verifies a bound by its flow alone. Raises BoundError, saying what is wrong with it."""
    if bound.op == -1 and bound.num_bytes <= always_bytes(graph):
        return
    if not 0 <= bound.op < graph.num_ops:
        raise BoundError(f"the graph has no op {bound.op}")
    network = Network(graph)
    arcs, flow = network.arcs, np.asarray(bound.flow)
    if flow.shape != arcs.capacity.shape or flow.dtype.kind != "i":
        raise BoundError(f"its flow must be {len(arcs.capacity)} integers")
    if np.any(flow < 0) or np.any(flow > arcs.capacity):
        raise BoundError("its flow is more than an arc carries, or less than nothing")
    net = np.zeros(arcs.num_nodes, object)  # Python's integers: no sum is too large
    np.add.at(net, arcs.tail, flow.astype(object))
    np.add.at(net, arcs.head, -flow.astype(object))
    side = network.sides(bound.op)
    if any(net[node] != 0 for node in np.flatnonzero(side == max_flow.INSIDE)):
        raise BoundError("its flow gets lost, or comes from nowhere, on the way")
    shown = sum(net[side == max_flow.SOURCE]) + int(network.own[bound.op])
    if bound.num_bytes > shown:
        raise BoundError(f"{bound.num_bytes} bytes claimed, its flow shows {shown}")


def arcs_of(graph: ComputationGraph, more: np.ndarray | None = None) -> _Arcs:
    """The network's arcs, in an order that depends on the graph alone; those of ``more`` pairs of
    ops, of which the first precedes the second, come last."""
    num_ops, num_tensors = graph.num_ops, graph.num_tensors
    start, end = num_ops + num_tensors, num_ops + num_tensors + 1
    tensor = np.arange(num_tensors)
    made, kept = graph.producer >= 0, graph.persistent
    unlimited = int(graph.size.sum()) + 1
    reader, read = graph.consumers.values, graph.consumers.row_of_value()
    counts = ~kept[read]
    before, after = _all_pairs(graph, more).T
    parts = [
        (np.where(made, graph.producer, start)[~kept], num_ops + tensor[~kept], graph.size[~kept]),
        (graph.producer[kept & made], np.full((kept & made).sum(), end), graph.size[kept & made]),
        (num_ops + read[counts], reader[counts], np.full(counts.sum(), unlimited)),
        (after, before, np.full(len(before), unlimited)),
    ]
    tail, head, capacity = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return _Arcs(tail.astype(np.int32), head.astype(np.int32), capacity.astype(np.int64), end + 1)


def left_out(tail, head, capacity, num_nodes: int, source: int, sink: int) -> np.ndarray:
    """bool[N]: the nodes beyond the least cut between two nodes of a network, the one of fewest
    nodes on the source's side."""
    to, offsets, leaving = _both_ways(tail, head, num_nodes)
    left = np.zeros(len(to), np.int64)
    left[0::2] = capacity
    side = np.zeros(num_nodes, np.int8)
    side[source], side[sink] = max_flow.SOURCE, max_flow.SINK
    level, next_arc = np.empty(num_nodes, np.int32), np.empty(num_nodes, np.int64)
    queue, path = np.empty(num_nodes, np.int32), np.empty(num_nodes, np.int32)
    max_flow.solve(offsets, leaving, to, left, side, level, next_arc, queue, path)
    return level < 0


def step_bytes(graph: ComputationGraph, order: np.ndarray) -> np.ndarray:
    """int64[O]: bytes in memory on one device while each op runs, in an order."""
    if not graph.num_ops:
        return np.zeros(0, np.int64)
    position = np.empty(graph.num_ops, np.int64)
    position[order] = np.arange(graph.num_ops)
    made, read = graph.producer >= 0, graph.consumers.lengths() > 0
    first = np.where(made, position[graph.producer], 0)
    last = first.copy()
    np.maximum.at(last, graph.consumers.row_of_value(), position[graph.consumers.values])
    last[graph.persistent] = graph.num_ops - 1
    there = made | read
    change = np.zeros(graph.num_ops + 1, np.int64)
    np.add.at(change, first[there], graph.size[there])
    np.subtract.at(change, last[there] + 1, graph.size[there])
    return np.cumsum(change)[:-1][position] + graph.workspace


class Network:
    """Cuts of one graph, one op after another.

    Args:
      graph: the graph.
      more: int32[K, 2], pairs of ops of which the first precedes the second, besides the graph's.
    """

    def __init__(self, graph: ComputationGraph, more: np.ndarray | None = None):
        self.graph, self.arcs = graph, arcs_of(graph, more)
        self.own = always_bytes(graph) + _own_bytes(graph)
        nodes = self.arcs.num_nodes
        self.to, self.offsets, self.leaving = _both_ways(self.arcs.tail, self.arcs.head, nodes)
        self.pairs = _all_pairs(graph, more).T
        before, after = self.pairs
        self.before = ragged_rows(after, before, graph.num_ops)
        self.after = ragged_rows(before, after, graph.num_ops)
        self.left = np.empty(len(self.to), np.int64)
        self.level, self.next_arc = np.empty(nodes, np.int32), np.empty(nodes, np.int64)
        self.queue, self.path = np.empty(nodes, np.int32), np.empty(nodes, np.int32)

    def sides(self, op: int) -> np.ndarray:
        """int8[N]: ancestors and the start are sources; op, its descendants, the end are sinks."""
        side = np.zeros(self.arcs.num_nodes, np.int8)
        side[-2:] = max_flow.SOURCE, max_flow.SINK
        for rows, kind in ((self.before, max_flow.SOURCE), (self.after, max_flow.SINK)):
            side[_reached(rows, op)] = kind
        side[op] = max_flow.SINK
        return side

    def least_cut(self, op: int) -> tuple[int, np.ndarray]:
        """(bytes, bool[O] the ops that have run) of the least cut below an op."""
        self.left[0::2], self.left[1::2] = self.arcs.capacity, 0
        return self.send(self.left, self.sides(op)), self.level[: self.graph.num_ops] >= 0

    def send(self, left: np.ndarray, side: np.ndarray) -> int:
        """Sends what can be sent from sources to sinks along ``left``, in place; how much it is."""
        work = self.level, self.next_arc, self.queue, self.path
        return int(max_flow.solve(self.offsets, self.leaving, self.to, left, side, *work))

    def mark_reaching(self, left: np.ndarray, side: np.ndarray) -> None:
        """``level`` is at least 0 for the nodes that reach a sink along what is left."""
        work = self.level, self.queue
        max_flow.mark_reaching(self.offsets, self.leaving, self.to, left, side, *work)

    def flow(self) -> np.ndarray:
        """int64[A]: the flow of the last cut."""
        return self.left[1::2].copy()

    def bytes_after(self, cut: int, below: np.ndarray) -> np.ndarray:
        """int64[O]: what ops need right after those ``below``; no limit where they can't run."""
        missing = np.zeros(self.graph.num_ops, np.int64)
        before, after = self.pairs
        np.add.at(missing, after, ~below[before])
        return np.where((missing == 0) & ~below, cut + self.own, np.iinfo(np.int64).max)


def _reached(rows, op: int) -> np.ndarray:
    """What is reached from an op along rows, but for the op."""
    seen, fresh = set(), [op]
    while fresh:
        found = [other for one in fresh for other in rows.row(one).tolist()]
        fresh = [other for other in dict.fromkeys(found) if other not in seen]
        seen.update(fresh)
    return np.fromiter(seen, np.int64, len(seen))


def _all_pairs(graph: ComputationGraph, more: np.ndarray | None) -> np.ndarray:
    pairs = precedence.op_pairs(graph)
    return pairs if more is None else np.concatenate([pairs, more])


def _both_ways(tail, head, num_nodes: int):
    """Where arcs and their reverses lead, and which leave each node: what ``max_flow`` reads."""
    to = np.stack([head, tail], axis=1).ravel().astype(np.int32)
    rows = np.stack([tail, head], axis=1).ravel()
    return to, *ragged_rows(rows, np.arange(len(to)), num_nodes)


def _own_bytes(graph: ComputationGraph) -> np.ndarray:
    return graph.outputs.sums(graph.size) + graph.workspace


def always_bytes(graph: ComputationGraph) -> int:
    """Bytes that are there from the start to the end."""
    present = (graph.producer < 0) & graph.persistent & (graph.consumers.lengths() > 0)
    return int(graph.size[present].sum())

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
from collections.abc import Sequence

import numpy as np

from regal_jax.errors import BoundError, OptionError
from regal_jax.graphs.computation_graph import ComputationGraph, RaggedRows, ragged_rows
from regal_jax.native import max_flow, reach


@dataclasses.dataclass(frozen=True, eq=False)
class CutBound:
    """No order of a graph's ops needs less than ``num_bytes`` on all devices together.

    Attributes:
      num_bytes: the bound.
      op: where they are in memory; -1 if nothing is.
      flow: int64[A], along the arcs of ``Network(graph)``, from op's ancestors to its descendants.
      is_exact: whether it is the largest of all such cuts; otherwise the search ended before.
    """

    num_bytes: int
    op: int
    flow: np.ndarray
    is_exact: bool


@dataclasses.dataclass(frozen=True, eq=False)
class Arcs:
    """A network; of a graph the nodes are ops, tensors, then START and END."""

    tail: np.ndarray  # int32[A]
    head: np.ndarray  # int32[A]
    capacity: np.ndarray  # int64[A]
    num_nodes: int

    @classmethod
    def of(cls, parts, num_nodes: int) -> "Arcs":
        """The arcs of several (tails, heads, capacities or one for all), one part after another."""
        tails, heads, _ = zip(*parts, strict=True)
        each = [np.broadcast_to(one, len(tail)) for tail, _, one in parts]
        return cls(
            np.concatenate(tails).astype(np.int32),
            np.concatenate(heads).astype(np.int32),
            np.concatenate(each).astype(np.int64),
            num_nodes,
        )


def min_cut_bound(
    graph: ComputationGraph,
    *,
    order: np.ndarray | None = None,
    most_flows: int | None = None,
) -> CutBound:
    """The largest cut over the ops; those that need most in known orders are tried first.

    Args:
      graph: the graph.
      order: int[O], an order of the ops; the less it needs, the fewer flows it takes.
      most_flows: ops to try at most, None for all that matter.

    Raises OptionError for a limit below 1.
    """
    if most_flows is not None and most_flows < 1:
        raise OptionError(f"most_flows must be at least 1, got {most_flows}")
    if not graph.num_ops:
        return CutBound(always_bytes(graph), -1, np.zeros(0, np.int64), True)
    network, order = Network(graph), graph.topological_order if order is None else order
    at_most = step_bytes(graph, order)
    todo = [(-int(size), op) for op, size in enumerate(at_most)]
    heapq.heapify(todo)
    best, flows = CutBound(-1, -1, np.zeros(0, np.int64), False), 0
    while todo:
        size, op = heapq.heappop(todo)
        if -size > at_most[op]:  # less by now
            heapq.heappush(todo, (-int(at_most[op]), op))
            continue
        if at_most[op] <= best.num_bytes:
            return dataclasses.replace(best, is_exact=True)
        if most_flows is not None and flows == most_flows:
            return best
        cut, below, flow = network.least_cut(op)
        flows += 1
        np.minimum(at_most, network.bytes_after(cut, below), out=at_most)
        after_cut = np.concatenate([order[below[order]], order[~below[order]]])
        np.minimum(at_most, step_bytes(graph, after_cut), out=at_most)
        if cut + network.own[op] > best.num_bytes:
            best = CutBound(int(cut + network.own[op]), op, flow, False)
    return dataclasses.replace(best, is_exact=True)


def check_cut(graph: ComputationGraph, bound: CutBound) -> None:
    """Verifies a bound by its flow alone. Raises BoundError, saying what is wrong with it."""
    if bound.op == -1 and bound.num_bytes <= always_bytes(graph):
        return
    if not 0 <= bound.op < graph.num_ops:
        raise BoundError(f"the graph has no op {bound.op}")
    network = Network(graph)
    shown = shown_by(network, bound.op, network.sides(bound.op), bound.flow)
    if bound.num_bytes > shown:
        raise BoundError(f"{bound.num_bytes} bytes claimed, its flow shows {shown}")


def shown_by(network: "Network", op: int, side: np.ndarray, flow: np.ndarray) -> int:
    """Bytes that are in memory at an op, by a flow from sources to sinks. Raises BoundError."""
    arcs, flow = network.arcs, np.asarray(flow)
    if flow.shape != arcs.capacity.shape or flow.dtype.kind != "i":
        raise BoundError(f"its flow must be {len(arcs.capacity)} integers")
    if np.any(flow < 0) or np.any(flow > arcs.capacity):
        raise BoundError("its flow is more than an arc carries, or less than nothing")
    net = np.zeros(arcs.num_nodes, object)  # Python's integers: no sum is too large
    np.add.at(net, arcs.tail, flow.astype(object))
    np.add.at(net, arcs.head, -flow.astype(object))
    if any(net[node] != 0 for node in np.flatnonzero(side == max_flow.INSIDE)):
        raise BoundError("its flow gets lost, or comes from nowhere, on the way")
    return sum(net[side == max_flow.SOURCE]) + int(network.own[op])


def arcs_of(graph: ComputationGraph, pairs: np.ndarray) -> Arcs:
    """The network's arcs, in an order that depends on the arguments alone; those of the pairs of
    ops, of which the first precedes the second, come last."""
    num_ops, num_tensors = graph.num_ops, graph.num_tensors
    start, end = num_ops + num_tensors, num_ops + num_tensors + 1
    tensor = np.arange(num_tensors)
    made, kept = graph.producer >= 0, graph.persistent
    unlimited = int(graph.size.sum()) + 1
    reader, read = graph.consumers.values, graph.consumers.row_of_value()
    counts = ~kept[read]
    before, after = pairs.T
    parts = [
        (np.where(made, graph.producer, start)[~kept], num_ops + tensor[~kept], graph.size[~kept]),
        (graph.producer[kept & made], np.full((kept & made).sum(), end), graph.size[kept & made]),
        (num_ops + read[counts], reader[counts], unlimited),
        (after, before, unlimited),
    ]
    return Arcs.of(parts, end + 1)


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


class FlowNetwork:
    """What flows through a network and what still could, ``left`` of each arc and its reverse.

    Attributes:
      level: int32[N]; after ``send`` at least 0 for the nodes of the least cut's side of the
        sources, the smallest there is.
    """

    def __init__(self, arcs: Arcs):
        self.arcs, nodes = arcs, arcs.num_nodes
        self.to = np.stack([arcs.head, arcs.tail], axis=1).ravel()
        ends = np.stack([arcs.tail, arcs.head], axis=1).ravel()
        self.offsets, self.leaving = ragged_rows(ends, np.arange(len(self.to)), nodes)
        self.level, self.next_arc = np.empty(nodes, np.int32), np.empty(nodes, np.int64)
        self.queue, self.path = np.empty(nodes, np.int32), np.empty(nodes, np.int32)

    def unused(self) -> np.ndarray:
        """int64[2 A]: what is left where nothing flows."""
        return np.stack([self.arcs.capacity, np.zeros_like(self.arcs.capacity)], axis=1).ravel()

    def send(self, left: np.ndarray, side: np.ndarray) -> int:
        """Sends what can be sent from sources to sinks along ``left``, in place; how much it is."""
        work = self.level, self.next_arc, self.queue, self.path
        return int(max_flow.solve(self.offsets, self.leaving, self.to, left, side, *work))

    def reaching(self, left: np.ndarray, side: np.ndarray) -> np.ndarray:
        """bool[N]: the nodes that reach a sink along what is left: not in any least cut's side of
        the sources. Overwrites ``level``."""
        work = self.level, self.queue
        max_flow.mark_reaching(self.offsets, self.leaving, self.to, left, side, *work)
        return self.level >= 0


class Network(FlowNetwork):
    """Cuts of one graph, one op after another.

    Args:
      graph: the graph.
      more: int32[K, 2], pairs of ops of which the first precedes the second, besides the graph's.

    Attributes:
      pairs: int32[P, 2], all of them.
    """

    def __init__(self, graph: ComputationGraph, more: np.ndarray | None = None):
        pairs = graph.op_pairs
        self.pairs = pairs if more is None else np.concatenate([pairs, more])
        super().__init__(arcs_of(graph, self.pairs))
        self.graph = graph
        self.own = always_bytes(graph) + graph.outputs.sums(graph.size) + graph.workspace
        before, after = self.pairs.T
        self._before = ragged_rows(after, before, graph.num_ops)
        self._after = ragged_rows(before, after, graph.num_ops)

    def before(self, ops: Sequence[int] | np.ndarray) -> np.ndarray:
        """bool[O]: what precedes one of some ops."""
        return _reached(self._before, ops)

    def after(self, ops: Sequence[int] | np.ndarray) -> np.ndarray:
        """bool[O]: what follows one of some ops."""
        return _reached(self._after, ops)

    def sides(self, op: int) -> np.ndarray:
        """int8[N]: ancestors and the start are sources; op, its descendants, the end are sinks."""
        return self.sides_of(op, self.before([op]), self.after([op]))

    def sides_of(self, op: int, ancestors: np.ndarray, descendants: np.ndarray) -> np.ndarray:
        """The same for known ancestors and descendants, bool[O]."""
        side = np.zeros(self.arcs.num_nodes, np.int8)
        side[-2:] = max_flow.SOURCE, max_flow.SINK
        of_ops = side[: self.graph.num_ops]
        of_ops[ancestors], of_ops[descendants], of_ops[op] = (
            max_flow.SOURCE,
            max_flow.SINK,
            max_flow.SINK,
        )
        return side

    def least_cut(self, op: int) -> tuple[int, np.ndarray, np.ndarray]:
        """(bytes, bool[O] the ops that have run, int64[A] flow) of the least cut below an op."""
        left = self.unused()
        value = self.send(left, self.sides(op))
        return value, self.level[: self.graph.num_ops] >= 0, left[1::2]

    def bytes_after(self, cut: int, below: np.ndarray) -> np.ndarray:
        """int64[O]: what ops need right after those ``below``; no limit where they can't run."""
        missing = np.zeros(self.graph.num_ops, np.int64)
        before, after = self.pairs.T
        np.add.at(missing, after, ~below[before])
        return np.where((missing == 0) & ~below, cut + self.own, np.iinfo(np.int64).max)


def _reached(rows: RaggedRows, ops: Sequence[int] | np.ndarray) -> np.ndarray:
    num_ops = len(rows.offsets) - 1
    seen, stack = np.zeros(num_ops, np.int8), np.empty(num_ops, np.int32)
    reach.mark(rows.offsets, rows.values, np.asarray(ops, np.int64), seen, stack)
    return seen.view(bool)


def given_bytes(graph: ComputationGraph) -> int:
    """Bytes that are there before the first op: what is read and nobody makes."""
    return int(graph.size[(graph.producer < 0) & (graph.consumers.lengths() > 0)].sum())


def always_bytes(graph: ComputationGraph) -> int:
    """Bytes that are there from the start to the end."""
    present = (graph.producer < 0) & graph.persistent & (graph.consumers.lengths() > 0)
    return int(graph.size[present].sum())

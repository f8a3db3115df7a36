"""Orders like those of XLA's memory schedulers (hlo_memory_scheduler.cc), for one device.

How a graph is read as an HLO computation: an op is an instruction; a tensor without a producer is a
parameter; an op's users are the distinct ops that read any of its outputs, and its operands those
whose outputs it reads. Tensors of size 0, which may stand for control edges, are treated alike. Op
indices stand for names and for the order in which a computation lists its instructions.
"""

import heapq

import numpy as np

from regal_jax.graphs.computation_graph import ComputationGraph, RaggedRows, ragged_rows
from regal_jax.search.orders.rules import Order

SCALAR_BYTES = 8
"""An op with one output of at most so many bytes, not 0, counts as a scalar: shapes are unknown."""


def xla_list(graph: ComputationGraph, seed: int = 0) -> np.ndarray:
    """int32[O]: ListMemoryScheduler. The ready op that frees most, less what it makes, runs next.

    Priority: (bytes freed - bytes defined, number of users); scalars come before all others. Freed
    are the inputs that no other op has still to read, but never parameters; defined are all outputs
    and the workspace (earlier versions of XLA count the memory of called computations, later ones
    nothing in its place). A persistent tensor is live out of the computation, hence never freed; so
    are outputs that nobody reads. Among equals the op that was queued last runs first, and ops that
    become ready together are queued by index. A waiting op whose priority has risen, since it is
    the last reader of a tensor now, is queued anew.
    """
    users, missing = _users(graph)
    queue = _ListQueue(graph, users.lengths())
    for op in np.flatnonzero(missing == 0).tolist():
        queue.push(op)
    order = []
    for _ in range(graph.num_ops):
        op = queue.pop()
        order.append(op)
        risen = [reader for reader in queue.count_reads(op) if missing[reader] == 0]
        for user in users.row(op).tolist():
            missing[user] -= 1
            if missing[user] == 0:
                queue.push(user)
        for reader in risen:
            queue.push(reader)
    return np.array(order, np.int32)


def xla_dfs(graph: ComputationGraph, seed: int = 0) -> np.ndarray:
    """int32[O]: DFSMemoryScheduler. Post-order from the roots: an op runs after its operands.

    Operands are visited by (extra users, total sizes), the largest first, then the lowest index.
    Extra users are an op's users beyond the first, total sizes its outputs' bytes; either is added
    up over the op and, path by path, over all that leads to it, so that what paths share counts
    more than once. XLA caps them, at the number of instructions and at the bytes of the
    instructions up to this one; here these are ops, in topological order.

    An HLO computation has one root. Here it is taken to be a tuple of the ops without users, which
    are visited like operands.
    """
    users, _ = _users(graph)
    rank = _rank(graph, users.lengths())
    operands, roots = _operands(graph, rank), np.flatnonzero(users.lengths() == 0)
    stack = roots[np.argsort(-rank[roots])].tolist()
    order: list[int] = []
    entered, left = np.zeros(graph.num_ops, bool), np.zeros(graph.num_ops, bool)
    while stack:
        op = stack[-1]
        if entered[op]:
            stack.pop()
            if not left[op]:
                left[op] = True
                order.append(op)
        else:
            entered[op] = True
            stack += [other for other in operands.row(op)[::-1].tolist() if not entered[other]]
    return np.array(order, np.int32)


class _ListQueue:
    """The ready ops of ``xla_list`` by priority, the uses left of each tensor, and what ops free.

    An op that is queued anew leaves its old entry behind, which is told by its number.
    """

    def __init__(self, graph: ComputationGraph, num_users: np.ndarray):
        self.graph, self.num_users = graph, num_users
        self.scalar = _is_scalar(graph)
        self.defined = graph.outputs.sums(graph.size) + graph.workspace
        live_out = graph.persistent.astype(np.int64)
        self.uses = np.where(graph.producer < 0, 0, graph.consumers.lengths() + live_out)
        self.freed = graph.inputs.sums(np.where(self.uses == 1, graph.size, 0))
        self.heap: list[tuple[int, int, int, int, int]] = []
        self.entry = np.zeros(graph.num_ops, np.int64)
        self.pushes = 0

    def push(self, op: int) -> None:
        self.pushes += 1
        self.entry[op] = self.pushes
        gain, popularity = int(self.freed[op] - self.defined[op]), int(self.num_users[op])
        priority = (-1, 0, 0) if self.scalar[op] else (0, -gain, -popularity)
        heapq.heappush(self.heap, (*priority, -self.pushes, op))

    def pop(self) -> int:
        while True:
            *_, entry, op = heapq.heappop(self.heap)
            if self.entry[op] == -entry:
                self.entry[op] = -1
                return op

    def count_reads(self, op: int) -> list[int]:
        """The op has run; the ops not run yet that free more than before, each once."""
        risen = []
        for tensor in self.graph.inputs.row(op).tolist():
            self.uses[tensor] -= 1
            if self.uses[tensor] == 1 and not self.graph.persistent[tensor]:
                readers = self.graph.consumers.row(tensor).tolist()
                last = next(reader for reader in readers if self.entry[reader] >= 0)
                self.freed[last] += self.graph.size[tensor]
                if self.graph.size[tensor] > 0 and not self.scalar[last]:
                    risen.append(last)
        return list(dict.fromkeys(risen))


def _users(graph: ComputationGraph) -> tuple[RaggedRows, np.ndarray]:
    """Rows of each op's users by index, and int64[O], the number of its operands."""
    pairs = graph.op_pairs
    missing = np.bincount(pairs[:, 1], minlength=graph.num_ops)
    return ragged_rows(pairs[:, 0], pairs[:, 1], graph.num_ops), missing


def _is_scalar(graph: ComputationGraph) -> np.ndarray:
    size = graph.outputs.sums(graph.size)
    return (graph.outputs.lengths() == 1) & (size > 0) & (size <= SCALAR_BYTES)


def _rank(graph: ComputationGraph, num_users: np.ndarray) -> np.ndarray:
    """int64[O]: the place of each op among all, where the one to visit first is 0."""
    extra = np.maximum(num_users - 1, 0).tolist()
    total = graph.outputs.sums(graph.size).tolist()
    pairs = graph.op_pairs
    operands = ragged_rows(pairs[:, 1], pairs[:, 0], graph.num_ops)
    so_far = 0
    for op in graph.topological_order.tolist():
        so_far += total[op]
        before = operands.row(op).tolist()
        extra[op] = min(extra[op] + sum(extra[i] for i in before), graph.num_ops)
        total[op] = min(total[op] + sum(total[i] for i in before), so_far)
    first = np.lexsort((-np.array(total, np.int64), -np.array(extra, np.int64)))
    rank = np.empty(graph.num_ops, np.int64)
    rank[first] = np.arange(graph.num_ops)
    return rank


def _operands(graph: ComputationGraph, rank: np.ndarray) -> RaggedRows:
    """Rows of each op's operands, the lowest rank first."""
    pairs = graph.op_pairs
    pairs = pairs[np.argsort(rank[pairs[:, 0]], kind="stable")]
    return ragged_rows(pairs[:, 1], pairs[:, 0], graph.num_ops)


ORDERS: dict[str, Order] = {"xla_list": xla_list, "xla_dfs": xla_dfs}

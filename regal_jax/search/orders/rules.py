"""Cheap orders and placements: rules of one pass, and the schedules they make together.

An order is int32[O], ops in a valid sequence; a placement int32[O], a device per op.
"""

import heapq
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from regal_jax.environments.one_device import one_device
from regal_jax.environments.schedule import Objective, Schedule
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph, ragged_rows

Order = Callable[[ComputationGraph, int], np.ndarray]
"""(graph, seed) -> order."""


def program_order(graph: ComputationGraph, seed: int = 0) -> np.ndarray:
    """The order of op indices, which importers make the program's; else the lowest ready first."""
    return graph.topological_order


def depth_first(graph: ComputationGraph, seed: int = 0) -> np.ndarray:
    """The op that became ready last runs next, so a chain is followed to its end."""
    stack: list[int] = []
    return _run_ready(graph, stack.append, stack.pop, reverse=True)


def breadth_first(graph: ComputationGraph, seed: int = 0) -> np.ndarray:
    """The op that became ready first runs next."""
    queue: deque[int] = deque()
    return _run_ready(graph, queue.append, queue.popleft)


def random_order(graph: ComputationGraph, seed: int = 0) -> np.ndarray:
    """Any ready op runs next, with equal probability."""
    rng = np.random.default_rng(seed)
    heap: list[tuple[float, int]] = []
    return _run_ready(
        graph,
        lambda op: heapq.heappush(heap, (rng.random(), op)),
        lambda: heapq.heappop(heap)[1],
    )


def least_memory_first(graph: ComputationGraph, seed: int = 0) -> np.ndarray:
    """LPMF: the ready op after which least memory is in use runs next (ties: lowest index).

    An op's change in memory is its outputs less the inputs it is the last to read. Since the number
    of readers left changes what an op would free, waiting ops are kept up to date.
    """
    change = one_device(graph).growth
    readers = graph.consumers.lengths().copy()
    frees = ~graph.persistent
    heap: list[tuple[int, int]] = []
    done = np.zeros(graph.num_ops, bool)

    def pop() -> int:
        while True:
            growth, op = heapq.heappop(heap)
            if not done[op] and growth == change[op]:
                break
        done[op] = True
        for tensor in graph.inputs.row(op).tolist():
            readers[tensor] -= 1
            if readers[tensor] == 1 and frees[tensor]:
                for other in graph.consumers.row(tensor).tolist():
                    if not done[other]:
                        change[other] -= graph.size[tensor]
                        if other in waiting:
                            heapq.heappush(heap, (int(change[other]), other))
        waiting.discard(op)
        return op

    waiting: set[int] = set()

    def push(op: int) -> None:
        waiting.add(op)
        heapq.heappush(heap, (int(change[op]), op))

    return _run_ready(graph, push, pop)


def single_device(graph: ComputationGraph) -> np.ndarray:
    """Everything on device 0."""
    return np.zeros(graph.num_ops, np.int32)


def greedily_balanced(
    graph: ComputationGraph, order: np.ndarray, weight: np.ndarray, num_devices: int
) -> np.ndarray:
    """In order, each op goes to the device with the least total weight so far."""
    return _to_lightest(order, weight, num_devices, graph.num_ops)


def whole_components(graph: ComputationGraph, weight: np.ndarray, num_devices: int) -> np.ndarray:
    """Parts of the graph that share no produced tensor stay whole; heaviest first to the lightest
    device. Replicas of a model (microbatches, ensembles) are such parts."""
    label = precedence.connected_components(graph)
    total = np.bincount(label, weight) if graph.num_ops else np.zeros(0)
    heaviest = np.argsort(-total, kind="stable")
    return _to_lightest(heaviest, total, num_devices, len(total))[label]


def contiguous(
    order: np.ndarray, weight: np.ndarray, shares: Sequence[float] | np.ndarray
) -> np.ndarray:
    """A pipeline: the order is cut where its running weight passes each share (0..1, rising)."""
    running = np.cumsum(weight[order])
    total = running[-1] if len(running) and running[-1] > 0 else 1.0
    placement = np.zeros(len(order), np.int32)
    placement[order] = np.searchsorted(np.asarray(shares), running / total, side="left")
    return placement


def op_weights(graph: ComputationGraph, objective: Objective) -> np.ndarray:
    """float64[O]: what to balance: durations, or bytes of outputs and of unproduced inputs."""
    if objective == "makespan":
        return graph.duration
    outputs = graph.outputs.sums(graph.size)
    return outputs + graph.inputs.sums(np.where(graph.producer < 0, graph.size, 0))


def build_schedule(
    graph: ComputationGraph,
    order: np.ndarray,
    placement: np.ndarray,
    *,
    objective: Objective,
    num_devices: int,
    eager: bool = False,
) -> Schedule:
    """The schedule of an order and a placement.

    A transfer runs right before the first op on its device that reads the copy or, if ``eager``,
    right after the tensor is made.
    """
    position = np.empty(graph.num_ops, np.int64)
    position[order] = np.arange(graph.num_ops)
    transfers, before = _transfers(graph, position, placement, num_devices, eager=eager)
    steps = np.concatenate([transfers, np.arange(graph.num_ops)])
    time = np.concatenate([before, 2 * position + 1])
    steps = steps[np.argsort(time, kind="stable")]
    return Schedule(
        graph=graph.name,
        objective=objective,
        num_devices=num_devices,
        placement=placement.astype(np.int32),
        steps=steps,
    )


def _transfers(
    graph: ComputationGraph,
    position: np.ndarray,
    placement: np.ndarray,
    num_devices: int,
    *,
    eager: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """int64[N] each: the steps of the transfers, and when they run, where the op at ``position`` p
    runs at 2 p + 1. In the order in which transfers of one time run."""
    crossing = placement[graph.edges[:, 0]] != placement[graph.edges[:, 2]]
    producer, tensor, reader = graph.edges[crossing].T.astype(np.int64)
    step = graph.num_ops + tensor * num_devices + placement[reader]
    transfers, first, group = np.unique(step, return_index=True, return_inverse=True)
    if eager:
        ranked = np.argsort(first, kind="stable")
        return transfers[ranked], 2 * position[producer[first]][ranked] + 2
    earliest = np.full(len(transfers), graph.num_ops)
    np.minimum.at(earliest, group, position[reader])
    return transfers, 2 * earliest


ORDERS: dict[str, Order] = {
    "program_order": program_order,
    "depth_first": depth_first,
    "breadth_first": breadth_first,
    "random_order": random_order,
    "lpmf": least_memory_first,
}


def _run_ready(graph: ComputationGraph, push, pop, *, reverse: bool = False) -> np.ndarray:
    """Kahn's algorithm over a container of ready ops, filled by ``push`` and emptied by ``pop``.

    Ops that become ready together are pushed by index, the lowest last if ``reverse`` (so that a
    stack yields it first).
    """
    successors = ragged_rows(graph.edges[:, 0], graph.edges[:, 2], graph.num_ops)
    missing = np.bincount(graph.edges[:, 2], minlength=graph.num_ops)
    order: list[int] = []
    new = np.flatnonzero(missing == 0).tolist()
    while len(order) < graph.num_ops:
        for op in sorted(new, reverse=reverse):
            push(op)
        op = pop()
        order.append(op)
        new = []
        for successor in successors.row(op).tolist():
            missing[successor] -= 1
            if missing[successor] == 0:
                new.append(successor)
    return np.array(order, np.int32)


def _to_lightest(members, weight, num_devices: int, length: int) -> np.ndarray:
    placement = np.zeros(length, np.int32)
    load = [(0.0, device) for device in range(num_devices)]
    for member in members.tolist():
        total, device = heapq.heappop(load)
        placement[member] = device
        heapq.heappush(load, (total + float(weight[member]), device))
    return placement

"""What a schedule costs, from BUILD_NOTES sections 3 and 4 alone: plain Python, to be read.

Shares no code with ``regal_jax.environments``. Steps are tuples: ``("op", i)`` or
``("transfer", t, d)``.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from regal_jax.graphs.computation_graph import ComputationGraph

Step = tuple


class PlainGraph(NamedTuple):
    """A graph in plain Python lists and numbers."""

    producer: list[int]
    size: list[int]
    persistent: list[bool]
    consumers: list[list[int]]
    duration: list[float]
    workspace: list[int]

    @property
    def ops(self) -> range:
        return range(len(self.duration))

    @property
    def tensors(self) -> range:
        return range(len(self.producer))

    def inputs(self, op: int) -> list[int]:
        return [t for t in self.tensors if op in self.consumers[t]]

    def outputs(self, op: int) -> list[int]:
        return [t for t in self.tensors if self.producer[t] == op]


def plain(graph: ComputationGraph) -> PlainGraph:
    return PlainGraph(
        producer=graph.producer.tolist(),
        size=graph.size.tolist(),
        persistent=graph.persistent.tolist(),
        consumers=[graph.consumers.row(t).tolist() for t in range(graph.num_tensors)],
        duration=graph.duration.tolist(),
        workspace=graph.workspace.tolist(),
    )


def needed_on(graph: PlainGraph, placement: Sequence[int], tensor: int) -> set[int]:
    """The devices that run a consumer of the tensor (rule 3.1)."""
    return {placement[op] for op in graph.consumers[tensor]}


def needed_transfers(graph: PlainGraph, placement: Sequence[int]) -> set[Step]:
    """One transfer per tensor with a producer and needed device other than the producer's."""
    return {
        ("transfer", t, device)
        for t in graph.tensors
        if graph.producer[t] >= 0
        for device in needed_on(graph, placement, t) - {placement[graph.producer[t]]}
    }


def all_steps(graph: PlainGraph, placement: Sequence[int]) -> set[Step]:
    return {("op", op) for op in graph.ops} | needed_transfers(graph, placement)


def is_ready(graph: PlainGraph, placement: Sequence[int], done: set[Step], step: Step) -> bool:
    """An op: inputs present on its device. A transfer: its tensor has been produced."""
    if step[0] == "transfer":
        return ("op", graph.producer[step[1]]) in done
    device = placement[step[1]]
    for t in graph.inputs(step[1]):
        producer = graph.producer[t]
        if producer < 0:
            continue
        arrival = ("op", producer) if placement[producer] == device else ("transfer", t, device)
        if arrival not in done:
            return False
    return True


def decode(
    graph: PlainGraph, chromosome: Sequence[float], num_devices: int
) -> tuple[list[int], list[Step]]:
    """Section 4: (placement, steps) of a chromosome."""
    num_ops, num_tensors = len(graph.ops), len(graph.tensors)
    genes = [float(gene) for gene in chromosome]
    assert len(genes) == num_ops * num_devices + num_ops + num_tensors * num_devices
    affinity = [genes[op * num_devices : (op + 1) * num_devices] for op in graph.ops]
    placement = [row.index(max(row)) for row in affinity]
    priority = genes[num_ops * num_devices :]

    def index(step: Step) -> int:
        return step[1] if step[0] == "op" else num_ops + step[1] * num_devices + step[2]

    left, steps = all_steps(graph, placement), []
    while left:
        ready = [s for s in left if is_ready(graph, placement, set(steps), s)]
        best = min(ready, key=lambda s: (-priority[index(s)], index(s)))
        steps.append(best)
        left.remove(best)
    return placement, steps


def peak_memory(
    graph: PlainGraph, placement: Sequence[int], steps: Sequence[Step], num_devices: int
) -> list[int]:
    """Peak bytes of every device (rules 3.1 to 3.4)."""
    memory: list[set[int]] = [set() for _ in range(num_devices)]
    for t in graph.tensors:
        if graph.producer[t] < 0:
            for device in needed_on(graph, placement, t):
                memory[device].add(t)

    def use(device: int) -> int:
        return sum(graph.size[t] for t in memory[device])

    def reads(step: Step) -> list[tuple[int, int]]:
        """The (tensor, device) pairs a step consumes."""
        if step[0] == "transfer":
            return [(step[1], placement[graph.producer[step[1]]])]
        return [(t, placement[step[1]]) for t in graph.inputs(step[1])]

    def is_kept(t: int, device: int) -> bool:
        at_home = graph.producer[t] < 0 or placement[graph.producer[t]] == device
        return graph.persistent[t] and at_home

    peak = [use(device) for device in range(num_devices)]
    for position, step in enumerate(steps):
        used_later = {pair for later in steps[position + 1 :] for pair in reads(later)}
        if step[0] == "transfer":
            device, made, scratch = step[2], [step[1]], 0
        else:
            device, scratch = placement[step[1]], graph.workspace[step[1]]
            made = graph.outputs(step[1])
        memory[device].update(made)
        peak[device] = max(peak[device], use(device) + scratch)
        for t, where in [(t, device) for t in made] + reads(step):
            if (t, where) not in used_later and not is_kept(t, where):
                memory[where].discard(t)
    return peak


def start_times(
    graph: PlainGraph,
    placement: Sequence[int],
    steps: Sequence[Step],
    latency: float = 0.0,
    per_byte: float = 0.0,
) -> list[float]:
    finish: dict[int, float] = {}
    start: dict[int, float] = {}
    free: dict[int, float] = {}
    for op in [step[1] for step in steps if step[0] == "op"]:
        earliest = free.get(placement[op], 0.0)
        for t in graph.inputs(op):
            producer = graph.producer[t]
            if producer >= 0:
                crosses = placement[producer] != placement[op]
                cost = latency + graph.size[t] * per_byte if crosses else 0.0
                earliest = max(earliest, finish[producer] + cost)
        start[op] = earliest
        finish[op] = free[placement[op]] = earliest + graph.duration[op]
    return [start[op] for op in graph.ops]


def makespan(
    graph: PlainGraph,
    placement: Sequence[int],
    steps: Sequence[Step],
    latency: float = 0.0,
    per_byte: float = 0.0,
) -> float:
    start = start_times(graph, placement, steps, latency, per_byte)
    return max((start[op] + graph.duration[op] for op in graph.ops), default=0.0)


def every_order(graph: PlainGraph, placement: Sequence[int]) -> Iterator[list[Step]]:
    """All valid orders of all steps, transfers included."""

    def extend(steps: list[Step], left: frozenset) -> Iterator[list[Step]]:
        if not left:
            yield steps
        for step in sorted(left):
            if is_ready(graph, placement, set(steps), step):
                yield from extend([*steps, step], left - {step})

    yield from extend([], frozenset(all_steps(graph, placement)))


def every_schedule(graph: PlainGraph, num_devices: int) -> Iterator[tuple[list[int], list[Step]]]:
    """All (placement, steps) of a tiny graph."""
    for placement in itertools.product(range(num_devices), repeat=len(graph.ops)):
        for steps in every_order(graph, placement):
            yield list(placement), steps

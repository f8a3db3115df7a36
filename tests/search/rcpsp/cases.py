"""Machine problems that several tests of searches use."""

import numpy as np

from regal_jax.graphs.computation_graph import ComputationGraph
from tests.strategies import computation_graphs


def job_shop(machine, duration) -> ComputationGraph:
    """Jobs in rows, their ops in order in columns: machines and durations."""
    machine, duration = np.asarray(machine), np.asarray(duration, float)
    ops = np.arange(machine.size).reshape(machine.shape)
    return ComputationGraph.create(
        num_ops=machine.size,
        producer=ops[:, :-1].ravel(),
        size=np.zeros(ops[:, 1:].size, int),
        consumers=[[op] for op in ops[:, 1:].ravel().tolist()],
        duration=duration.ravel(),
        machine_type=machine.ravel(),
        capacity=np.ones(machine.max() + 1, int),
        name="jobs",
    )


FT06 = job_shop(
    [
        [2, 0, 1, 3, 5, 4],
        [1, 2, 4, 5, 0, 3],
        [2, 3, 5, 0, 1, 4],
        [1, 0, 2, 3, 4, 5],
        [2, 1, 4, 5, 0, 3],
        [1, 3, 5, 0, 4, 2],
    ],
    [
        [1, 3, 6, 7, 3, 6],
        [8, 5, 10, 10, 10, 4],
        [5, 4, 8, 9, 1, 7],
        [5, 5, 5, 3, 8, 9],
        [9, 3, 5, 4, 3, 1],
        [3, 3, 9, 10, 4, 1],
    ],
)
"""Fisher and Thompson's 6 jobs on 6 machines (1963): the least makespan is 55."""


def random_machines(
    seed: int, num_ops: int, *, capacity=(1, 1, 4), density: float = 0.1, whole: bool = True
) -> ComputationGraph:
    """Ops of random types, demands and durations; pairs have an edge with probability ``density``,
    ops in any order."""
    rng = np.random.default_rng(seed)
    place = rng.permutation(num_ops)
    before, after = np.nonzero(np.triu(rng.random((num_ops, num_ops)) < density, 1))
    machine = rng.integers(0, len(capacity), num_ops)
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=place[before],
        size=np.zeros(len(before), int),
        consumers=[[op] for op in place[after].tolist()],
        duration=rng.integers(1, 30, num_ops) if whole else rng.random(num_ops) * 30,
        machine_type=machine,
        demand=rng.integers(0, np.array(capacity)[machine] + 1),
        capacity=capacity,
        name="random",
    )


tiny_machines = computation_graphs(max_ops=5, max_tensors=6, machine_types=2)
"""Few enough ops to try every order of them, whole durations, 0 included, and every demand."""


def least_makespan(graph: ComputationGraph) -> float:
    """By serial generation of every order: among these is a shortest schedule (Kolisch 1996)."""
    pairs = graph.edges[:, [0, 2]].tolist()
    before = [[u for u, v in pairs if v == op] for op in range(graph.num_ops)]
    return _least(graph, before, {})


def check_valid(graph: ComputationGraph, start: np.ndarray) -> None:
    """Precedence, and at every start no more demand than capacity; ops of no duration use none."""
    end = start + graph.duration
    assert np.all(start >= 0)
    assert np.all(end[graph.edges[:, 0]] <= start[graph.edges[:, 2]])
    for moment in start:
        running = (start <= moment) & (moment < end)
        used = np.bincount(
            graph.machine_type[running], graph.demand[running], minlength=len(graph.capacity)
        )
        assert np.all(used <= graph.capacity)


def _least(graph, before, start: dict[int, float]) -> float:
    if len(start) == graph.num_ops:
        return max(start[op] + graph.duration[op] for op in start)
    eligible = [
        op
        for op in range(graph.num_ops)
        if op not in start and all(producer in start for producer in before[op])
    ]
    return min(
        _least(graph, before, start | {op: _earliest(graph, before, start, op)}) for op in eligible
    )


def _earliest(graph, before, start, op: int) -> float:
    ready = max((start[u] + graph.duration[u] for u in before[op]), default=0.0)
    same = [u for u in start if graph.machine_type[u] == graph.machine_type[op]]
    ends = [start[u] + graph.duration[u] for u in same]
    return min(
        time
        for time in [ready, *(end for end in ends if end > ready)]
        if _fits(graph, start, same, op, time)
    )


def _fits(graph, start, same, op: int, time: float) -> bool:
    """Whether an op fits at all moments of its run: at its start and where others start in it."""
    if graph.duration[op] == 0:
        return True
    moments = [start[u] for u in same if time < start[u] < time + graph.duration[op]]
    room = graph.capacity[graph.machine_type[op]] - graph.demand[op]
    return all(
        sum(graph.demand[u] for u in same if start[u] <= t < start[u] + graph.duration[u]) <= room
        for t in [time, *moments]
    )

"""Machine problems in plain Python, from the definitions alone: both generations, brute force.

Shares no code with ``regal_jax``; slow, for small graphs.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class PlainMachines(NamedTuple):
    """A machine problem as plain lists; ``before[i]`` are the ops that op i waits for."""

    duration: list[float]
    demand: list[int]
    machine: list[int]
    capacity: list[int]
    before: list[set[int]]


def plain_machines(graph) -> PlainMachines:
    before: list[set[int]] = [set() for _ in range(len(graph.duration))]
    for producer, _, consumer in graph.edges.tolist():
        before[consumer].add(producer)
    columns = (graph.duration, graph.demand, graph.machine_type, graph.capacity)
    return PlainMachines(*(column.tolist() for column in columns), before)


def by_priority(ops, priority: Sequence[float]) -> list[int]:
    return sorted(ops, key=lambda i: (-priority[i], i))


def parallel(problem: PlainMachines, priority: Sequence[float]) -> list[float]:
    """Start times of the list scheduler.

    After the walk at a time, time moves to the next end, which is the same time if an op of no
    duration has started; all that ends then is released, then the walk begins anew.
    """
    start: dict[int, float] = {}
    running: dict[int, float] = {}
    done: set[int] = set()
    time = 0.0
    while True:
        ready = [i for i in _ops(problem) if i not in start and problem.before[i] <= done]
        for i in by_priority(ready, priority):
            if problem.demand[i] <= _free(problem, running, problem.machine[i]):
                start[i], running[i] = time, time + problem.duration[i]
        if not running:
            return _in_order(start)
        time = min(running.values())
        for i in [i for i in running if running[i] == time]:
            del running[i]
            done.add(i)


def serial(problem: PlainMachines, priority: Sequence[float]) -> list[float]:
    """Start times: the eligible op of highest priority, as early as its type has room."""
    start: dict[int, float] = {}
    while len(start) < len(problem.duration):
        eligible = [i for i in _ops(problem) if i not in start and problem.before[i] <= set(start)]
        i = by_priority(eligible, priority)[0]
        start[i] = _earliest(problem, start, i)
    return _in_order(start)


def _earliest(problem: PlainMachines, start: dict[int, float], i: int) -> float:
    """The first time with room throughout: when what the op waits for, or another op, ends."""
    ends = {j: start[j] + problem.duration[j] for j in start}
    release = max((ends[j] for j in problem.before[i]), default=0.0)
    for time in sorted({release, *(end for end in ends.values() if end > release)}):
        within = [time, *(start[j] for j in start if time < start[j] < time + problem.duration[i])]
        if time + problem.duration[i] <= time or all(
            _used(problem, start, problem.machine[i], at) + problem.demand[i]
            <= problem.capacity[problem.machine[i]]
            for at in within
        ):
            return time
    raise AssertionError("a demand above its capacity")


def _used(problem: PlainMachines, start: dict[int, float], machine: int, time: float) -> int:
    return sum(
        problem.demand[j]
        for j, begins in start.items()
        if problem.machine[j] == machine and begins <= time < begins + problem.duration[j]
    )


def makespan(problem: PlainMachines, start: Sequence[float]) -> float:
    return max(s + d for s, d in zip(start, problem.duration, strict=True))


def least_makespan(problem: PlainMachines) -> float:
    """The optimum: of all active schedules, which serial generation makes of all orders."""
    return min(makespan(problem, serial(problem, p)) for p in _priorities(problem))


def _priorities(problem: PlainMachines) -> Iterator[list[float]]:
    """One priority per topological order."""
    num_ops = len(problem.duration)
    for order in itertools.permutations(range(num_ops)):
        position = {i: place for place, i in enumerate(order)}
        if all(position[j] < position[i] for i in range(num_ops) for j in problem.before[i]):
            yield [-float(position[i]) for i in range(num_ops)]


def least_by_integers(problem: PlainMachines) -> float:
    """The optimum for whole durations by trying all whole start times, depth first."""
    num_ops = len(problem.duration)
    order = _topological(problem)
    best = makespan(problem, serial(problem, [0.0] * num_ops))

    def extend(start: dict[int, float]) -> None:
        nonlocal best
        if len(start) == num_ops:
            best = min(best, makespan(problem, _in_order(start)))
            return
        i = order[len(start)]
        first = max((start[j] + problem.duration[j] for j in problem.before[i]), default=0.0)
        time = first
        while time + problem.duration[i] < best:
            begins = [time, *(s for s in start.values() if time < s < time + problem.duration[i])]
            if problem.duration[i] == 0 or all(
                _used(problem, start, problem.machine[i], at) + problem.demand[i]
                <= problem.capacity[problem.machine[i]]
                for at in begins
            ):
                extend({**start, i: time})
            time += 1.0

    extend({})
    return best


def _topological(problem: PlainMachines) -> list[int]:
    order: list[int] = []
    while len(order) < len(problem.duration):
        order += [i for i in _ops(problem) if i not in order and problem.before[i] <= set(order)]
    return order


def _ops(problem: PlainMachines) -> range:
    return range(len(problem.duration))


def _free(problem: PlainMachines, running: dict[int, float], machine: int) -> int:
    used = sum(problem.demand[i] for i in running if problem.machine[i] == machine)
    return problem.capacity[machine] - used


def _in_order(start: dict[int, float]) -> list[float]:
    return [start[i] for i in range(len(start))]

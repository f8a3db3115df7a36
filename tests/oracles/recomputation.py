"""Schedules of one device in which ops run again, from BUILD_NOTES section 3 alone: plain Python.

Shares no code with ``regal_jax.environments``.
"""

import heapq
import itertools
from collections.abc import Iterator, Sequence

from tests.oracles.schedule_cost import PlainGraph

State = tuple[frozenset, frozenset]
"""The tensors that are held, and the ops that have run."""


def is_valid(graph: PlainGraph, runs: Sequence[int]) -> bool:
    """Each op runs, after those it reads, and not again after those that waited for it."""
    return set(runs) == set(graph.ops) and all(
        may_run(graph, frozenset(runs[:row]), op) for row, op in enumerate(runs)
    )


def may_run(graph: PlainGraph, done: frozenset, op: int) -> bool:
    """Whether an op may run after some others."""
    made = all(graph.producer[t] < 0 or graph.producer[t] in done for t in graph.inputs(op))
    waited = {c for t in graph.outputs(op) if graph.size[t] == 0 for c in graph.consumers[t]}
    return made and not (op in done and waited & done)


def usage(graph: PlainGraph, runs: Sequence[int]) -> list[int]:
    """Bytes in memory at the start and during each run, with its workspace."""
    rows = [0] * (len(runs) + 1)
    for row, op in enumerate(runs, 1):
        rows[row] += graph.workspace[op]
    for t in graph.tensors:
        for first, last in spans(graph, runs, t):
            for row in range(first, last + 1):
                rows[row] += graph.size[t]
    return rows


def spans(graph: PlainGraph, runs: Sequence[int], t: int) -> list[tuple[int, int]]:
    """The rows from and to which each making of a tensor is in memory; row 0 is the start."""
    made = [row for row, op in enumerate(runs, 1) if graph.producer[t] == op]
    read = [row for row, op in enumerate(runs, 1) if op in graph.consumers[t]]
    if graph.producer[t] < 0:
        made = [0] if read else []
    if graph.persistent[t]:
        return [(made[0], len(runs))] if made else []
    ends = [*made[1:], len(runs) + 1][: len(made)]
    return [
        (first, max([row for row in read if first < row < end], default=first))
        for first, end in zip(made, ends, strict=True)
    ]


def least_work(graph: PlainGraph, limit: float) -> float:
    """us of all runs at best, with no more than so many bytes in memory; infinite if nothing fits.

    The shortest path over states: an op runs, or a tensor is freed.
    """
    given = frozenset(t for t in graph.tensors if graph.producer[t] < 0 and graph.consumers[t])
    start: State = (given, frozenset())
    if _bytes(graph, given) > limit:
        return float("inf")
    tie = itertools.count()
    queue, reached = [(0.0, next(tie), start)], set[State]()
    while queue:
        work, _, state = heapq.heappop(queue)
        if len(state[1]) == len(graph.ops):
            return work
        if state in reached:
            continue
        reached.add(state)
        for more, following in _moves(graph, state, limit):
            if following not in reached:
                heapq.heappush(queue, (work + more, next(tie), following))
    return float("inf")


def least_memory(graph: PlainGraph) -> int:
    """The least limit that anything fits, whatever its work: by bisection."""
    low, high = 0, sum(graph.size) + max(graph.workspace, default=0)
    while low < high:
        limit = (low + high) // 2
        low, high = (low, limit) if least_work(graph, limit) < float("inf") else (limit + 1, high)
    return low


def _moves(graph: PlainGraph, state: State, limit: float) -> Iterator[tuple[float, State]]:
    held, done = state
    for t in held:
        if graph.size[t] and not graph.persistent[t]:
            yield 0.0, (held - {t}, done)
    for op in graph.ops:
        after = held | set(graph.outputs(op))
        fits = _bytes(graph, after) + graph.workspace[op] <= limit
        if fits and held.issuperset(graph.inputs(op)) and may_run(graph, done, op):
            yield graph.duration[op], (after, done | {op})


def _bytes(graph: PlainGraph, held: frozenset) -> int:
    return sum(graph.size[t] for t in held)

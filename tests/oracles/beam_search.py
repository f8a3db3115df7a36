"""Beam search over orders on one device with state-collapsing, in plain Python, to be read.

From neural_topological_ordering (eq. 8, section 4.2, appendix C.3) and BUILD_NOTES section 3 alone.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.oracles.exhaustive_search import use_after, use_during
from tests.oracles.schedule_cost import PlainGraph

Scores = Callable[[tuple[int, ...], list[int]], Sequence[float]]
"""(the ops so far, those that can run next) -> a number for each of the latter."""


class Partial(NamedTuple):
    """A partial order: its ops, the peak so far [bytes], and minus its log-probability."""

    ops: tuple[int, ...]
    peak: int
    cost: float


def beam_search(
    graph: PlainGraph, width: int, priorities: Sequence[float] | Scores | None
) -> tuple[Partial, bool]:
    """(the best complete order, whether a tie decided which states were kept)."""
    place = [0] * len(graph.ops)
    start = use_after(graph, place, frozenset(), 1)[0]
    level, tied = [Partial((), start, 0.0)], False
    key = _least_cost if priorities is not None else _least_memory(graph)
    for _ in graph.ops:
        best: dict[frozenset, Partial] = {}
        for state in level:
            for child in _children(graph, state, priorities):
                kept = best.get(frozenset(child.ops))
                if kept is None or (child.peak, child.cost) < (kept.peak, kept.cost):
                    best[frozenset(child.ops)] = child
        ranked = sorted(best.values(), key=key)
        tied |= len(ranked) > width and key(ranked[width - 1]) == key(ranked[width])
        level = ranked[:width]
    return level[0], tied


def _least_cost(state: Partial) -> tuple:
    return (state.cost,)


def _least_memory(graph: PlainGraph) -> Callable[[Partial], tuple]:
    place = [0] * len(graph.ops)
    return lambda state: (state.peak, use_after(graph, place, done_set(state.ops), 1)[0])


def done_set(ops: Sequence[int]) -> frozenset:
    return frozenset(("op", op) for op in ops)


def schedulable(graph: PlainGraph, ops: Sequence[int]) -> list[int]:
    """The ops that can run next, lowest first."""
    made = [t for t in graph.tensors if graph.producer[t] < 0 or graph.producer[t] in ops]
    rest = [op for op in graph.ops if op not in ops]
    return [op for op in rest if all(t in made for t in graph.inputs(op))]


def _children(graph: PlainGraph, state: Partial, priorities) -> list[Partial]:
    place, choices = [0] * len(graph.ops), schedulable(graph, state.ops)
    if callable(priorities):
        values = [float(value) for value in priorities(state.ops, choices)]
    else:
        values = [0.0 if priorities is None else float(priorities[op]) for op in choices]
    log_total = max(values) + math.log(math.fsum(math.exp(v - max(values)) for v in values))
    return [
        Partial(
            (*state.ops, op),
            max(state.peak, *use_during(graph, place, done_set(state.ops), ("op", op), 1)),
            state.cost + max(log_total - value, 0.0),
        )
        for op, value in zip(choices, values, strict=True)
    ]

"""Lower bounds of the makespan of machine problems; reported with every result as a gap."""

import itertools
from typing import Literal, NamedTuple

import numpy as np

from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph

EXACT = 2.0**32, 2.0**20
"""Durations of a sum below the first, in parts of the second, are added without rounding."""


class Shown(NamedTuple):
    """A makespan that no schedule can beat, and the ops that show it.

    Attributes:
      value: in the graph's unit of time.
      kind: "path", ops that follow each other; or "work", ops of one machine type that share its
        units.
      ops: which.
    """

    value: float
    kind: Literal["path", "work"]
    ops: tuple[int, ...]


def makespan_bound(graph: ComputationGraph) -> float:
    """The value of ``strongest``."""
    return strongest(graph).value


def strongest(graph: ComputationGraph) -> Shown:
    """The largest of these bounds.

    - the longest path of durations;
    - for each machine type, ``work`` of all its ops, of those with at least any one op's head
      (longest path before an op), and of those with at least any one op's tail (longest path
      behind it). (Carlier 1982, "The one-machine sequencing problem", for several units; he has
      the largest of all subsets.)
    """
    heads, tails = _heads_and_tails(graph)
    path = _longest_path(graph, heads)
    found = [Shown(length_of(graph, path), "path", path)]
    for machine in range(_num_types(graph)):
        for ops in _late_and_long(graph, machine, heads, tails):
            found.append(Shown(work_of(graph, ops, heads, tails), "work", ops))
    return max(found, key=lambda shown: shown.value)


def length_of(graph: ComputationGraph, path: tuple[int, ...]) -> float:
    """The sum of the durations of ops that follow each other, as schedules add them."""
    return float(sum(graph.duration[op] for op in path))


def work_of(graph: ComputationGraph, ops: tuple[int, ...], heads=None, tails=None) -> float:
    """The work of ops of one machine type, sum(duration * demand), spread over its units, between
    the earliest head and the shortest tail.

    Whole durations make whole makespans: then it is exact, and rounded up; so are durations that
    float64 adds without rounding (``EXACT``). Else it is lowered by what rounding may have taken
    from a schedule's makespan. Heads and tails are computed if they are not given.
    """
    if not ops:
        return 0.0
    if heads is None or tails is None:
        heads, tails = _heads_and_tails(graph)
    some, unit = np.array(ops), _unit(graph)
    area = _areas(graph, some, unit)[-1]
    value = float(heads[some].min() + area + tails[some].min())
    rounding = (2 * graph.num_ops + 8) * float(np.finfo(np.float64).eps)
    return value if unit else value * (1.0 - rounding)


def _heads_and_tails(graph: ComputationGraph) -> tuple[np.ndarray, np.ndarray]:
    return precedence.top_levels(graph), precedence.bottom_levels(graph) - graph.duration


def _longest_path(graph: ComputationGraph, heads: np.ndarray) -> tuple[int, ...]:
    ends, pairs = heads + graph.duration, precedence.op_pairs(graph)
    pairs = pairs[ends[pairs[:, 0]] == heads[pairs[:, 1]]]
    before = dict(zip(pairs[:, 1].tolist(), pairs[:, 0].tolist(), strict=True))
    path = [int(np.argmax(ends))] if graph.num_ops else []
    while path and path[-1] in before:
        path.append(before[path[-1]])
    return tuple(path[::-1])


def _num_types(graph: ComputationGraph) -> int:
    assert graph.capacity is not None
    return len(graph.capacity)


def _late_and_long(graph: ComputationGraph, machine: int, heads, tails):
    """The ops of one machine type, those from some head on and those from some tail on, for which
    the bound is largest; ops that take no units or no time don't count."""
    busy = (graph.machine_type == machine) & (graph.demand > 0) & (graph.duration > 0)
    ops, unit = np.flatnonzero(busy), _unit(graph)
    for key, other in ((heads, tails), (tails, heads)):
        some = ops[np.argsort(-key[ops])]
        bounds = key[some] + _areas(graph, some, unit) + np.minimum.accumulate(other[some])
        yield tuple(some[: int(np.argmax(bounds)) + 1].tolist()) if some.size else ()


def _unit(graph: ComputationGraph) -> float:
    """What all durations are exact multiples of: 1, or a part of it, or 0 for nothing known."""
    duration, (most, parts) = graph.duration, EXACT
    if np.all(duration == np.floor(duration)):
        return 1.0
    exact = duration.sum() < most and np.all(duration * parts == np.floor(duration * parts))
    return 1.0 / parts if exact else 0.0


def _areas(graph: ComputationGraph, ops: np.ndarray, unit: float) -> np.ndarray:
    """float64[ops]: work / capacity of the first op, of the first two, ...

    Rounded up to units (in Python's integers, since work may exceed int64).
    """
    assert graph.capacity is not None
    if not len(ops):
        return np.zeros(0)
    capacity = int(graph.capacity[graph.machine_type[ops[0]]])
    if not unit:
        return np.cumsum(graph.duration[ops] * graph.demand[ops]) / capacity
    whole = graph.duration[ops] / unit
    columns = zip(whole.tolist(), graph.demand[ops].tolist(), strict=True)
    work = itertools.accumulate(int(duration) * demand for duration, demand in columns)
    return np.array([-(-total // capacity) for total in work], np.float64) * unit

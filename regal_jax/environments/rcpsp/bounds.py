"""Lower bounds of the makespan of machine problems; reported with every result as a gap."""

import itertools
from collections.abc import Iterator
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
      kind: "path", ops that follow each other; "work", ops of one machine type that share its
        units; or "arrivals", an op between its head and its tail (``placement.arrivals``).
      ops: which.
    """

    value: float
    kind: Literal["path", "work", "arrivals"]
    ops: tuple[int, ...]


class Ends(NamedTuple):
    """What no schedule can leave out before and behind each op.

    Attributes:
      heads: float64[O], before an op.
      tails: float64[O], behind it.
      exact: whether their sums with durations are free of rounding, in any order.
    """

    heads: np.ndarray
    tails: np.ndarray
    exact: bool


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
    ends = path_ends(graph)
    path = _longest_path(graph, ends.heads)
    found = [Shown(length_of(graph, path), "path", path), *by_work(graph, ends)]
    return max(found, key=lambda shown: shown.value)


def path_ends(graph: ComputationGraph) -> Ends:
    """The longest paths before and behind each op."""
    tails = precedence.bottom_levels(graph) - graph.duration
    return Ends(precedence.top_levels(graph), tails, unit_of(graph.duration) > 0)


def by_work(graph: ComputationGraph, ends: Ends) -> Iterator[Shown]:
    """The bounds by work of each machine type, of some of its ops."""
    assert graph.capacity is not None
    for machine in range(len(graph.capacity)):
        for ops in _late_and_long(graph, machine, ends):
            yield Shown(work_of(graph, ops, ends), "work", ops)


def length_of(graph: ComputationGraph, path: tuple[int, ...]) -> float:
    """The sum of the durations of ops that follow each other, as schedules add them."""
    return float(sum(graph.duration[op] for op in path))


def work_of(graph: ComputationGraph, ops: tuple[int, ...], ends: Ends) -> float:
    """The work of ops of one machine type, sum(duration * demand), spread over its units, between
    the earliest head and the shortest tail.

    Whole durations take each unit a whole time: then it is rounded up, and so are multiples of a
    part of 1 (``EXACT``). What rounding may have taken from a schedule's makespan is left out.
    """
    if not ops:
        return 0.0
    some, unit = np.array(ops), unit_of(graph.duration)
    area = _areas(graph, some, unit)[-1]
    value = float(ends.heads[some].min() + area + ends.tails[some].min())
    return value if unit and ends.exact else value * (1.0 - rounding(graph))


def rounding(graph: ComputationGraph) -> float:
    """The part of a schedule's makespan that sums in another order may exceed it by."""
    return (4 * graph.num_ops + 8) * float(np.finfo(np.float64).eps)


def _longest_path(graph: ComputationGraph, heads: np.ndarray) -> tuple[int, ...]:
    ends, pairs = heads + graph.duration, graph.op_pairs
    pairs = pairs[ends[pairs[:, 0]] == heads[pairs[:, 1]]]
    before = dict(zip(pairs[:, 1].tolist(), pairs[:, 0].tolist(), strict=True))
    path = [int(np.argmax(ends))] if graph.num_ops else []
    while path and path[-1] in before:
        path.append(before[path[-1]])
    return tuple(path[::-1])


def _late_and_long(graph: ComputationGraph, machine: int, ends: Ends):
    """The ops of one machine type, those from some head on and those from some tail on, for which
    the bound is largest; ops that take no units or no time don't count."""
    busy = (graph.machine_type == machine) & (graph.demand > 0) & (graph.duration > 0)
    ops, unit = np.flatnonzero(busy), unit_of(graph.duration)
    for key, other in ((ends.heads, ends.tails), (ends.tails, ends.heads)):
        some = ops[np.argsort(-key[ops])]
        bounds = key[some] + _areas(graph, some, unit) + np.minimum.accumulate(other[some])
        yield tuple(some[: int(np.argmax(bounds)) + 1].tolist()) if some.size else ()


def unit_of(times: np.ndarray) -> float:
    """What all of them are exact multiples of: 1, or a part of it, or 0 for nothing known."""
    most, parts = EXACT
    if np.all(times == np.floor(times)):
        return 1.0
    exact = times.sum() < most and np.all(times * parts == np.floor(times * parts))
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

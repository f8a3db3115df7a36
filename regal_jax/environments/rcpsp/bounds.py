"""A lower bound of the makespan of machine problems; reported with every result as a gap."""

import itertools

import numpy as np

from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph


def makespan_bound(graph: ComputationGraph) -> float:
    """A makespan, in the graph's unit of time, that no schedule on its machines can beat.

    The largest of
    - the longest path of durations;
    - for each machine type, the work of its ops spread over its units, sum(duration * demand) /
      capacity, between the earliest head (longest path before an op) and the shortest tail
      (longest path behind an op): for all ops of the type, for those with at least any one op's
      head, and for those with at least any one op's tail. (Carlier 1982, "The one-machine
      sequencing problem", for several units; he has the largest of all subsets.)

    Whole durations make whole makespans: then the bound is exact, and rounded up. Else it is
    lowered by what rounding to float64 may have taken from a schedule's makespan.
    """
    heads = precedence.top_levels(graph)
    tails = precedence.bottom_levels(graph) - graph.duration
    whole = bool(np.all(graph.duration == np.floor(graph.duration)))
    bound = max(
        (_type_bound(graph, machine, heads, tails, whole) for machine in range(_num_types(graph))),
        default=0.0,
    )
    if not whole:
        bound *= 1.0 - (2 * graph.num_ops + 8) * float(np.finfo(np.float64).eps)
    return max(bound, float((heads + graph.duration).max(initial=0.0)))


def _num_types(graph: ComputationGraph) -> int:
    assert graph.capacity is not None
    return len(graph.capacity)


def _type_bound(graph, machine: int, heads, tails, whole: bool) -> float:
    """The bound of one machine type's ops; those that take no units or no time don't count."""
    busy = (graph.machine_type == machine) & (graph.demand > 0) & (graph.duration > 0)
    ops = np.flatnonzero(busy)
    late, long = ops[np.argsort(-heads[ops])], ops[np.argsort(-tails[ops])]
    capacity = int(graph.capacity[machine])
    by_head = heads[late] + _areas(graph, late, capacity, whole) + _least(tails[late])
    by_tail = _least(heads[long]) + _areas(graph, long, capacity, whole) + tails[long]
    return float(np.concatenate([by_head, by_tail]).max(initial=0.0))


def _least(values: np.ndarray) -> np.ndarray:
    return np.minimum.accumulate(values)


def _areas(graph, ops: np.ndarray, capacity: int, whole: bool) -> np.ndarray:
    """float64[ops]: work / capacity of the first op, of the first two, ...

    Rounded up where all is whole (in Python's integers, since work may exceed int64).
    """
    if not whole:
        return np.cumsum(graph.duration[ops] * graph.demand[ops]) / capacity
    columns = zip(graph.duration[ops].tolist(), graph.demand[ops].tolist(), strict=True)
    work = itertools.accumulate(int(duration) * demand for duration, demand in columns)
    return np.array([-(-total // capacity) for total in work], np.float64)

"""A machine problem's graph as the flat, exact arrays that its compiled kernel reads.

Only precedence counts here: an op waits for the producers of the tensors it reads, whatever their
sizes (one-shot priority sampling, section 2.2).
"""

from typing import NamedTuple

import numpy as np

from regal_jax.graphs.computation_graph import ComputationGraph


class MachineColumns(NamedTuple):
    """O ops, M machine types, P distinct pairs of an op and one that waits for it.

    A type's ops have *slots*, in decreasing priority, from a multiple of 64 on: bit ``slot % 64``
    of word ``slot // 64`` says whether the op of a slot is ready.

    Attributes:
      duration: float64[O], in the graph's unit of time. longest: float64[1], the longest of them.
      demand: int64[O], units of its type that an op holds while it runs. capacity: int64[M], units.
      least: int64[M], the smallest demand of the type's ops: with fewer units free none can start.
      machine: int32[O], the type. num_dependencies: int32[O], ops that the op waits for.
      successor_offsets: int32[O + 1] into successors: int32[P], the ops that wait for it.
      slot_offsets: int32[M + 1], the first slot of each type; then the number of slots S.
    """

    duration: np.ndarray
    longest: np.ndarray
    demand: np.ndarray
    capacity: np.ndarray
    least: np.ndarray
    machine: np.ndarray
    num_dependencies: np.ndarray
    successor_offsets: np.ndarray
    successors: np.ndarray
    slot_offsets: np.ndarray


def machine_columns(graph: ComputationGraph) -> MachineColumns:
    """Prepares a graph with capacities for the compiled kernel."""
    capacity, machine = graph.capacity, graph.machine_type
    assert capacity is not None
    pairs = graph.op_pairs
    least = np.full(len(capacity), np.iinfo(np.int64).max)
    np.minimum.at(least, machine, graph.demand)
    slots = -(-np.bincount(machine, minlength=len(capacity)) // 64) * 64
    return MachineColumns(
        duration=graph.duration,
        longest=np.array([graph.duration.max(initial=0.0)]),
        demand=graph.demand,
        capacity=capacity,
        least=least,
        machine=machine,
        num_dependencies=np.bincount(pairs[:, 1], minlength=graph.num_ops).astype(np.int32),
        successor_offsets=_offsets(np.bincount(pairs[:, 0], minlength=graph.num_ops)),
        successors=np.ascontiguousarray(pairs[:, 1]),
        slot_offsets=_offsets(slots),
    )


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)

"""A hash of a graph's topology, the same however its ops and tensors are numbered.

Weisfeiler-Lehman refinement: ops and tensors are coloured; in each round a colour is mixed with
those of its neighbours, in-edges apart from out-edges, until no round splits a colour class any
more. The digest of the sorted colours is the hash. As for any such refinement, graphs that differ
can share a hash if they are so regular that no round tells their nodes apart.
"""

import hashlib

import numpy as np

from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.precedence import bottom_levels, levels


def topology_hash(graph: ComputationGraph) -> str:
    """64 hexadecimal digits (SHA-256) that depend on who produces and who consumes what, only.

    Sizes, durations, persistence, machine types, names and numbering don't matter.
    """
    ops, tensors = _first_colours(graph)
    classes = -1
    while (found := len(np.unique(ops)) + len(np.unique(tensors))) > classes:
        classes = found
        ops, tensors = _refined(graph, ops, tensors)
    counts = np.array([graph.num_ops, graph.num_tensors], np.uint64)
    colours = np.concatenate([counts, np.sort(ops), np.sort(tensors)])
    return hashlib.sha256(colours.astype("<u8").tobytes()).hexdigest()


def _first_colours(graph: ComputationGraph) -> tuple[np.ndarray, np.ndarray]:
    """uint64[O], uint64[T]: ops by their depths from both ends (saves rounds), tensors alike."""
    unit = graph.replace(duration=np.ones(graph.num_ops))
    depths = levels(unit).astype(np.uint64), bottom_levels(unit).astype(np.uint64)
    return _mix(_mix(depths[0]) + depths[1]), np.ones(graph.num_tensors, np.uint64)


def _refined(
    graph: ComputationGraph, ops: np.ndarray, tensors: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """One round: each tensor with its producer and consumers, then each op with its tensors."""
    rows, consumers = graph.consumers.row_of_value(), graph.consumers.values
    produced = np.flatnonzero(graph.producer >= 0)
    makers = graph.producer[produced]
    tensors = _mix(tensors + _sum(produced, _mix(ops[makers]), len(tensors)))
    tensors = _mix(tensors + _sum(rows, _mix(ops[consumers]), len(tensors)))
    ops = _mix(ops + _sum(makers, _mix(tensors[produced]), len(ops)))
    ops = _mix(ops + _sum(consumers, _mix(tensors[rows]), len(ops)))
    return ops, tensors


def _sum(index: np.ndarray, colours: np.ndarray, length: int) -> np.ndarray:
    """uint64[length]: colours summed by index, modulo 2**64: a hash of each multiset."""
    total = np.zeros(length, np.uint64)
    np.add.at(total, index, colours)
    return total


def _mix(values: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64, a bijection of uint64 that scatters close values."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))

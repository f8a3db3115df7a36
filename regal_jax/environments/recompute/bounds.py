"""The least memory that one device needs, however often ops run again, and whatever the work.

When an op runs first, what is in memory is at least: its inputs, outputs and workspace; the tensors
that are there from the start and that it or an op behind it reads, since these are still to run;
what persists of that and of ops before it.
"""

import numpy as np

from regal_jax.environments.placement.bounds import peak_memory_bound
from regal_jax.environments.schedule import Schedule
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph


def least_memory(graph: ComputationGraph) -> int:
    """Bytes that no schedule of one device is below, ops running as often as they like."""
    given = (graph.producer < 0) & (graph.consumers.lengths() > 0)
    return max(int(graph.size[given].sum()), int(working_sets(graph).max(initial=0)))


def working_sets(graph: ComputationGraph) -> np.ndarray:
    """int64[O], bytes: what there is at least when each op runs first."""
    given, persistent, size = graph.producer < 0, graph.persistent, graph.size
    fleeting = np.where(given | persistent, 0, size)
    need = graph.workspace + graph.outputs.sums(size) + graph.inputs.sums(fleeting)
    below = precedence.closure(graph)
    for tensor in np.flatnonzero(persistent & ~given & (size > 0)).tolist():
        need += size[tensor] * _row(below[graph.producer[tensor]], graph.num_ops)
    for tensor in np.flatnonzero(given & (size > 0)).tolist():
        readers = graph.consumers.row(tensor)
        if persistent[tensor]:
            need += size[tensor] * bool(len(readers))
        else:
            need += size[tensor] * _at_or_above(below, readers)
    return need


def peak_bound(graph: ComputationGraph, schedule: Schedule) -> int:
    """Bytes that no schedule like this one is below: each op once, or any number of times."""
    if schedule.runs_again:
        return least_memory(graph)
    return peak_memory_bound(graph, schedule.num_devices)


def _row(words: np.ndarray, num_ops: int) -> np.ndarray:
    """bool[O]: one row of a closure."""
    octets = words.astype("<u8").view(np.uint8)
    return np.unpackbits(octets, bitorder="little")[:num_ops].astype(bool)


def _at_or_above(below: np.ndarray, ops: np.ndarray) -> np.ndarray:
    """bool[O]: the ops themselves, and those that one of them descends from."""
    found = np.zeros(len(below), bool)
    for op in ops.tolist():
        found |= (below[:, op // 64] >> np.uint64(op % 64)) & np.uint64(1) > 0
    found[ops] = True
    return found

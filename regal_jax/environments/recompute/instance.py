"""A graph in a base order, as the kernels of recomputation read it."""

from collections.abc import Iterable

import numpy as np

from regal_jax.environments.recompute.kernel import DROP, KEEP, Instance, Scratch
from regal_jax.graphs.computation_graph import ComputationGraph, ragged_rows

MOST_RUNS = 4
"""Times the number of ops: plans of more runs are given up."""


def instance_of(
    graph: ComputationGraph,
    order: np.ndarray,
    work: np.ndarray,
    once: Iterable[int] = (),
) -> Instance:
    """The instance of a graph.

    Args:
      graph: O ops.
      order: int[O], the base order.
      work: float[O], what a run of each op takes.
      once: ops that may not run again, besides those that make a tensor which orders others.
    """
    position = np.empty(graph.num_ops, np.int32)
    position[order] = np.arange(graph.num_ops)
    is_read = graph.consumers.lengths() > 0
    given = graph.producer < 0
    producer = np.full(graph.num_tensors, -1, np.int32)
    producer[~given] = position[graph.producer[~given]]
    fixed = np.zeros(graph.num_ops + 1, bool)  # the last one stands for no producer
    fixed[list(once)] = True
    fixed[graph.producer[is_read & (graph.size == 0)]] = True
    stays = given | graph.persistent | fixed[graph.producer]
    num_gaps = np.where(stays, 0, graph.consumers.lengths() + 1)
    reads = _in_order(graph.consumers.values, graph.consumers.row_of_value(), position)
    made = _in_order(graph.producer[~given], np.flatnonzero(~given), position)
    return Instance(
        read_offsets=reads.offsets,
        reads=reads.values,
        made_offsets=made.offsets,
        made=made.values,
        producer=producer,
        size=np.where(given & ~is_read, 0, graph.size),
        persistent=np.array(graph.persistent),
        workspace=graph.workspace[order],
        work=np.asarray(work, np.float64)[order],
        gaps=np.concatenate([[0], np.cumsum(num_gaps)]).astype(np.int64),
        tensor=np.repeat(np.arange(graph.num_tensors, dtype=np.int32), num_gaps),
    )


def _in_order(ops: np.ndarray, tensors: np.ndarray, position: np.ndarray):
    """Rows of tensors, one for each op in the base order, by where they are made."""
    return ragged_rows(position[ops], tensors, len(position))


def scratch_of(instance: Instance) -> Scratch:
    """The memory that the kernels work with."""
    num_ops, num_tensors = len(instance.work), len(instance.producer)
    most = MOST_RUNS * num_ops
    return Scratch(
        runs=np.zeros(most, np.int32),
        turn=np.zeros(most, np.int32),
        change=np.zeros(most + 2, np.int64),
        there=np.zeros(num_tensors, bool),
        uses=np.zeros(num_tensors, np.int32),
        since=np.zeros(num_tensors, np.int32),
        until=np.zeros(num_tensors, np.int32),
        stack=np.zeros(num_ops + 1, np.int32),
        remade=np.zeros(num_tensors, np.int32),
        live=np.zeros(num_tensors, bool),
    )


def each_once(instance: Instance) -> np.ndarray:
    """int8[G], the plan in which each op runs once: tensors are dropped behind their last use."""
    plan = np.full(len(instance.tensor), KEEP, np.int8)
    with_gaps = np.diff(instance.gaps) > 0
    plan[instance.gaps[1:][with_gaps] - 1] = DROP
    return plan

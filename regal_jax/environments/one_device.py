"""What one device holds as ops run (BUILD_NOTES.md, section 3, with one device).

An op adds what stays of its outputs, and frees the inputs that it alone reads; an input of several
readers goes with the last of them. So the bytes in use depend on which ops have run, not on their
order.
"""

from typing import NamedTuple

import numpy as np

from regal_jax.graphs.computation_graph import ComputationGraph, RaggedRows, ragged_rows


class OneDevice(NamedTuple):
    """O ops on one device, and K shared tensors: those with a size that several ops read, and that
    are freed at last.

    Attributes:
      during: int64[O], bytes of an op's outputs and workspace, in use on top while it runs.
      made: int64[O], bytes of its outputs that stay.
      growth: int64[O], bytes more in use after an op, before it frees shared tensors.
      size: int64[K], bytes of shared tensors.
      readers: of each shared tensor, the ops that read it.
      reads: of each op, the shared tensors it reads.
      start: bytes in use before the first op.
    """

    during: np.ndarray
    made: np.ndarray
    growth: np.ndarray
    size: np.ndarray
    readers: RaggedRows
    reads: RaggedRows
    start: int


def one_device(graph: ComputationGraph) -> OneDevice:
    """What one device holds of a graph."""
    readers, freed = graph.consumers.lengths(), ~graph.persistent
    made = graph.outputs.sums(np.where((readers > 0) | graph.persistent, graph.size, 0))
    shared = np.flatnonzero(freed & (readers > 1) & (graph.size > 0))
    reading = _rows(graph.consumers, shared)
    return OneDevice(
        graph.outputs.sums(graph.size) + graph.workspace,
        made,
        made - graph.inputs.sums(np.where(freed & (readers == 1), graph.size, 0)),
        graph.size[shared],
        reading,
        ragged_rows(reading.values, reading.row_of_value(), graph.num_ops),
        int(graph.size[(graph.producer < 0) & (readers > 0)].sum()),
    )


def _rows(rows: RaggedRows, kept: np.ndarray) -> RaggedRows:
    """Some of the rows, renumbered."""
    lengths = rows.lengths()[kept]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    return RaggedRows(offsets, rows.values[np.repeat(rows.offsets[kept], lengths) + within])

"""A graph as the flat, exact, unpadded index arrays that the compiled CPU kernel reads.

Tensors are renumbered so that an op's outputs are neighbours. What can't change during a search is
folded in here: a parameter that is never freed and has a single reader only adds a constant to that
reader's device.
"""

from typing import NamedTuple

import numpy as np

from regal_jax.graphs.computation_graph import ComputationGraph, ragged_rows
from regal_jax.native import packing


class NativeGraph(NamedTuple):
    """O ops and K tracked tensors: the produced ones by producer, then the rest of the inputs.

    Attributes:
      counts: int64[2], O and T (all tensors of the graph: the chromosome's length follows).
      duration: float64[O], us. workspace, output_bytes, private_bytes: int64[O], bytes;
        private_bytes are never-freed inputs read by this op only.
      num_dependencies: int32[O], produced tensors the op waits for.
      output_offsets: int32[O + 1], tracked tensors produced by op o are [o], ..., [o + 1] - 1.
      release_offsets: int32[O + 1] and release_tensors: tracked tensors the op reads.
      size: int64[K], bytes. producer: int32[K], -1 for inputs. persistent: int32[K], 0 or 1.
      consumer_offsets: int32[K + 1] and consumer_ops: who reads the tracked tensor.
      original: int32[K], index in the graph. tracked: int32[T], the reverse, -1 if not tracked.
    """

    counts: np.ndarray
    duration: np.ndarray
    workspace: np.ndarray
    output_bytes: np.ndarray
    private_bytes: np.ndarray
    size: np.ndarray
    num_dependencies: np.ndarray
    output_offsets: np.ndarray
    release_offsets: np.ndarray
    release_tensors: np.ndarray
    producer: np.ndarray
    persistent: np.ndarray
    consumer_offsets: np.ndarray
    consumer_ops: np.ndarray
    original: np.ndarray
    tracked: np.ndarray


_WIDE = {"counts": np.int64, "duration": np.float64, "workspace": np.int64}
_WIDE |= {"output_bytes": np.int64, "private_bytes": np.int64, "size": np.int64}


def native_graph(graph: ComputationGraph) -> NativeGraph:
    """Prepares a graph for the compiled kernel.

    All columns are views of one buffer: of the same types for every graph (the graph's own arrays
    may be read-only, or strided), so that the kernel is compiled once.
    """
    readers = graph.consumers.lengths()
    fixed = (graph.producer < 0) & graph.persistent & (readers == 1)
    unread = (graph.producer < 0) & (readers == 0)
    kept = np.flatnonzero(~(fixed | unread))
    last = np.where(graph.producer < 0, graph.num_ops, graph.producer)[kept]
    original = kept[np.argsort(last, kind="stable")]
    tracked = np.full(graph.num_tensors, -1, np.int32)
    tracked[original] = np.arange(len(original))
    consumers = _rows_taken(graph, original)
    producer = graph.producer[original]
    produced = producer[producer >= 0]
    size = graph.size[original]
    stays = (producer < 0) & graph.persistent[original]
    released = ragged_rows(consumers.values, consumers.row_of_value(), graph.num_ops)
    released = _without(released, stays)
    made = NativeGraph(
        counts=np.array([graph.num_ops, graph.num_tensors], np.int64),
        duration=graph.duration,
        workspace=graph.workspace,
        output_bytes=_sums(produced, size[: len(produced)], graph.num_ops),
        private_bytes=_private_bytes(graph, fixed),
        size=size,
        num_dependencies=np.bincount(graph.edges[:, 2], minlength=graph.num_ops).astype(np.int32),
        output_offsets=_offsets(np.bincount(produced, minlength=graph.num_ops)),
        release_offsets=released.offsets.astype(np.int32),
        release_tensors=released.values,
        producer=producer,
        persistent=graph.persistent[original].astype(np.int32),
        consumer_offsets=consumers.offsets.astype(np.int32),
        consumer_ops=consumers.values,
        original=original.astype(np.int32),
        tracked=tracked,
    )
    return unpack(packing.pack(made))


def packed_length(num_ops: int, num_tensors: int, num_edges: int) -> int:
    """The most numbers that ``packing.pack`` needs for a graph of at most this size."""
    header = 2 * len(NativeGraph._fields) + 4
    offsets_and_evenness = 3 + len(NativeGraph._fields)
    return header + offsets_and_evenness + 11 * num_ops + 7 * num_tensors + 2 * num_edges


def unpack(buffer: np.ndarray) -> NativeGraph:
    """A packed graph's columns, as views of the buffer."""
    dtypes = [_WIDE.get(field, np.int32) for field in NativeGraph._fields]
    return NativeGraph(*packing.unpack(buffer, dtypes))


def _rows_taken(graph: ComputationGraph, tensors: np.ndarray):
    """The consumer rows of some tensors, in the given order."""
    rows = [graph.consumers.row(tensor) for tensor in tensors]
    owner = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    values = np.concatenate(rows) if rows else np.zeros(0, np.int32)
    return ragged_rows(owner, values, len(rows))


def _without(rows, dropped: np.ndarray):
    keep = ~dropped[rows.values]
    return ragged_rows(rows.row_of_value()[keep], rows.values[keep], len(rows.offsets) - 1)


def _sums(owner: np.ndarray, sizes: np.ndarray, length: int) -> np.ndarray:
    total = np.zeros(length, np.int64)
    np.add.at(total, owner, sizes)
    return total


def _private_bytes(graph: ComputationGraph, fixed: np.ndarray) -> np.ndarray:
    reader = graph.consumers.values[graph.consumers.offsets[:-1][fixed]]
    return _sums(reader, graph.size[fixed], graph.num_ops)


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)

"""A graph on one device from its start or from its end: what a search over sets of ops reads.

Read forwards, a set holds the ops that have run; read backwards, those that have not. A tensor is
in memory once an op of the set has opened it and until all that close it are in the set: forwards
its producer opens it and its readers close it, backwards it is the other way round. Persistent
tensors are never closed forwards, and in memory from the start backwards.
"""

from typing import NamedTuple

import numpy as np

from regal_jax.environments.placement import min_cut
from regal_jax.graphs.computation_graph import ComputationGraph, RaggedRows, ragged_rows

NEVER = 1 << 30
"""So many ops close what is never closed."""


class Side(NamedTuple):
    """What doesn't change. O ops, T tensors; rows in CSR form, ``[offsets[i]:offsets[i + 1]]``.

    Attributes:
      forwards: whether sets hold what has run.
      own: int64[O], bytes that are in memory on top of the set's while an op runs.
      size: int64[T], bytes; 0 for tensors that are never in memory beyond their op's step.
      before_offsets, before: the ops that an op waits for.
      after_offsets, after: the ops that wait for it.
      opens_offsets, opens: the tensors that it opens, and closes_offsets, closes: that it closes.
      label: uint64[O]; a set's hash is the XOR of its ops' labels (Zobrist hashing).
    """

    forwards: bool
    own: np.ndarray
    size: np.ndarray
    before_offsets: np.ndarray
    before: np.ndarray
    after_offsets: np.ndarray
    after: np.ndarray
    opens_offsets: np.ndarray
    opens: np.ndarray
    closes_offsets: np.ndarray
    closes: np.ndarray
    label: np.ndarray


class Ground(NamedTuple):
    """A set of ops; kernels change it in place.

    Attributes:
      waits: int32[O], how many ops an op waits for that are neither in the set nor lazy and ready.
      opened, left: int32[T], ops in the set that open a tensor (one more if it is there from the
        start), and ops outside that close it.
      inside, barred: uint8[O], ops of the set, and those that the other side has.
      lazy: uint8[O], ops that run only right before an op that waits for them, see ``lazy_ops``.
    """

    waits: np.ndarray
    opened: np.ndarray
    left: np.ndarray
    inside: np.ndarray
    barred: np.ndarray
    lazy: np.ndarray


def both_sides(
    graph: ComputationGraph, pairs: np.ndarray, descendants: np.ndarray | None
) -> list[tuple[Side, Ground]]:
    """The graph forwards and backwards, with nothing in their sets.

    Args:
      graph: the graph.
      pairs: int32[P, 2], ops of which the first precedes the second.
      descendants: bool[O, O], which ops come after an op; None if unknown (nothing is lazy then).
    """
    lazy = lazy_ops(graph, descendants)
    return [
        _side(graph, pairs, lazy[0], forwards=True),
        _side(graph, pairs[:, ::-1], lazy[1], forwards=False),
    ]


def lazy_ops(
    graph: ComputationGraph, descendants: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """uint8[O] each: the ops that may wait until another needs them, forwards and backwards.

    Such an op never lowers what is in memory, and its step needs what is in memory after it and no
    more. If another op that doesn't wait for it runs next, the two may change places: the other
    then finds less in memory, and after both there is as much as before. So it may always run right
    before an op that waits for it (or before another such op).

    Forwards, these are ops without workspace all of whose outputs stay, and whose inputs all stay:
    they persist, or are read by something that comes after the op. Backwards, ops that make no
    bytes. Ops for which nothing waits are none.
    """
    pairs = graph.op_pairs
    nothing = np.zeros(graph.num_ops, np.uint8)
    if descendants is None:
        return nothing, nothing.copy()
    read, has_size = graph.consumers.lengths() > 0, graph.size > 0
    lazy = (graph.workspace == 0) & np.isin(np.arange(graph.num_ops), pairs[:, 0])
    gone = (graph.producer >= 0) & ~read & ~graph.persistent & has_size
    lazy[graph.producer[gone]] = False
    for tensor in np.flatnonzero(has_size & ~graph.persistent & read).tolist():
        readers = graph.consumers.row(tensor)
        lazy[readers[~descendants[np.ix_(readers, readers)].any(axis=1)]] = False
    own = graph.outputs.sums(graph.size) + graph.workspace
    backwards = (own == 0) & np.isin(np.arange(graph.num_ops), pairs[:, 1])
    return lazy.astype(np.uint8), backwards.astype(np.uint8)


def _side(graph: ComputationGraph, pairs, lazy, *, forwards: bool) -> tuple[Side, Ground]:
    num_ops, producer, kept = graph.num_ops, graph.producer, graph.persistent
    reader, read = graph.consumers.values, graph.consumers.row_of_value()
    made, has_reader = producer >= 0, graph.consumers.lengths() > 0
    counts = (made & (has_reader | kept)) | (~made & has_reader & ~kept)
    closed = counts[read] & ~kept[read]
    by_producer = ragged_rows(producer[made & counts], np.flatnonzero(made & counts), num_ops)
    by_readers = ragged_rows(reader[closed], read[closed], num_ops)
    if forwards:
        opens, closes = by_producer, by_readers
        opened, left = ~made & counts, np.where(kept, NEVER, graph.consumers.lengths())
    else:
        opens, closes = by_readers, by_producer
        opened, left = made & kept, np.where(made, 1, NEVER)
    before = ragged_rows(pairs[:, 1], pairs[:, 0], num_ops)
    after = ragged_rows(pairs[:, 0], pairs[:, 1], num_ops)
    side = Side(
        forwards,
        (graph.outputs.sums(graph.size) + graph.workspace).astype(np.int64),
        np.where(counts, graph.size, 0).astype(np.int64),
        *_columns(before),
        *_columns(after),
        *_columns(opens),
        *_columns(closes),
        np.random.default_rng(0).integers(1, 2**63, num_ops).astype(np.uint64),
    )
    waits = before.lengths().astype(np.int32)
    _count_ready_lazy(waits, after, lazy)
    ground = Ground(
        waits,
        opened.astype(np.int32),
        left.astype(np.int32),
        np.zeros(num_ops, np.uint8),
        np.zeros(num_ops, np.uint8),
        lazy.copy(),
    )
    return side, ground


def _count_ready_lazy(waits: np.ndarray, after: RaggedRows, lazy: np.ndarray) -> None:
    """Nothing waits for lazy ops that themselves wait for nothing."""
    ready = [op for op in range(len(waits)) if lazy[op] and waits[op] == 0]
    while ready:
        for op in after.row(ready.pop()).tolist():
            waits[op] -= 1
            if lazy[op] and waits[op] == 0:
                ready.append(op)


def _columns(rows: RaggedRows) -> tuple[np.ndarray, np.ndarray]:
    return rows.offsets.astype(np.int64), rows.values.astype(np.int32)


def bytes_at_start(graph: ComputationGraph, side: Side, ground: Ground) -> int:
    """Bytes in memory with nothing in the set."""
    return min_cut.always_bytes(graph) + int(side.size[ground.opened > 0].sum())

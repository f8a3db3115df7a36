"""A graph on one device as arrays for searches over orders: what memory a set of ops leaves.

The bytes in use after a set of ops depend on the set alone (``environments.one_device``). So a
search over orders keeps a bitset of the ops done and the bytes in use, and an op changes both by
itself: it adds its ``growth``, and frees each shared input of which all other readers are in the
set.

A bitset has op v as bit v % 64 of word v // 64, lowest first, in int64.
"""

from typing import NamedTuple

import numpy as np

from regal_jax.environments.one_device import one_device
from regal_jax.graphs.computation_graph import ComputationGraph, RaggedRows, ragged_rows

WORD = 64


class OrderSpace(NamedTuple):
    """A graph on one device. O ops, W = ceil(O / 64) words, K shared tensors.

    Shared tensors are those with a size that several ops read and that are freed at last. Rows are
    in CSR form: row i is [offsets[i]], ..., [offsets[i + 1] - 1]. A mask is a bitset without its
    empty words: ``mask_words`` says which words, ``mask_bits`` what is in them.

    Attributes:
      during: int64[O], bytes of an op's outputs and workspace, in use on top while it runs.
      growth: int64[O], bytes more in use after an op, before it frees shared inputs.
      shared_offsets, shared: the shared tensors an op reads.
      size: int64[K], bytes. readers: int32[K], how many ops read a shared tensor.
      reader_offsets, reader_words, reader_bits: masks of the ops that read a shared tensor.
      after_offsets, after: ops that read from an op.
      waiting: int32[O], how many ops an op reads from.
      before_offsets, before_words, before_bits: masks of the ops that an op reads from.
      sources: int64[W], bitset of the ops that read from no op.
      label: int64[O], random; the hash of a set is the XOR of its ops' labels (Zobrist hashing).
      start: int64[1], bytes in use before the first op.
    """

    during: np.ndarray
    growth: np.ndarray
    shared_offsets: np.ndarray
    shared: np.ndarray
    size: np.ndarray
    readers: np.ndarray
    reader_offsets: np.ndarray
    reader_words: np.ndarray
    reader_bits: np.ndarray
    after_offsets: np.ndarray
    after: np.ndarray
    waiting: np.ndarray
    before_offsets: np.ndarray
    before_words: np.ndarray
    before_bits: np.ndarray
    sources: np.ndarray
    label: np.ndarray
    start: np.ndarray


def order_space(graph: ComputationGraph) -> OrderSpace:
    """The arrays of a graph (BUILD_NOTES.md, section 3, with one device)."""
    num_ops, pairs, own = graph.num_ops, graph.op_pairs, one_device(graph)
    before = ragged_rows(pairs[:, 1], pairs[:, 0], num_ops)
    return OrderSpace(
        own.during,
        own.growth,
        *own.reads,
        own.size,
        own.readers.lengths().astype(np.int32),
        *_masks(own.readers),
        *ragged_rows(pairs[:, 0], pairs[:, 1], num_ops),
        before.lengths().astype(np.int32),
        *_masks(before),
        _bitset(np.flatnonzero(before.lengths() == 0), num_ops),
        np.random.default_rng(0).integers(-(2**63), 2**63, num_ops, np.int64),
        np.array([own.start], np.int64),
    )


def most_in_use(space: OrderSpace) -> tuple[int, int]:
    """(a peak, bytes in use after an op) that no order exceeds."""
    after = int(space.start[0]) + int(np.maximum(space.growth, 0).sum())
    return after + int(space.during.max(initial=0)), after


def _masks(rows: RaggedRows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(offsets int64, words int32, bits int64) of each row's ops as a bitset."""
    num_rows, row = len(rows.offsets) - 1, rows.row_of_value().astype(np.int64)
    most = int(rows.values.max(initial=0)) // WORD + 1
    place, which = np.unique(row * most + rows.values // WORD, return_inverse=True)
    bits = np.zeros(len(place), np.int64)
    np.bitwise_or.at(bits, which, np.int64(1) << (rows.values % WORD).astype(np.int64))
    offsets = np.searchsorted(place, np.arange(num_rows + 1) * most)
    return offsets.astype(np.int64), (place % most).astype(np.int32), bits


def _bitset(ops: np.ndarray, num_ops: int) -> np.ndarray:
    words = np.zeros(-(-num_ops // WORD), np.int64)
    np.bitwise_or.at(words, ops // WORD, np.int64(1) << (ops % WORD).astype(np.int64))
    return words

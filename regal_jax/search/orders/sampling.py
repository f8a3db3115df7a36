"""Orders drawn by the softmax of the priorities of schedulable ops, compiled for CPUs.

The distribution is eq. 8 of neural_topological_ordering. A binary tree has the sums of the weights
exp(priority) of the schedulable ops, so that a step takes time in the logarithm of the number of
ops and nothing is ever subtracted from a sum.
"""

import heapq

import numpy as np

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph, RaggedRows, ragged_rows
from regal_jax.graphs.features.relations import Relations
from regal_jax.native.compilation import jit_with_arrays
from regal_jax.native.threads import over_threads

LARGEST_EXPONENT = 600.0
"""Priorities further than this below the highest count as this far, lest weights are 0."""


def op_successors(graph: ComputationGraph) -> RaggedRows:
    """Rows of the ops that read what an op makes, without repeats."""
    pairs = graph.op_pairs
    return ragged_rows(pairs[:, 0], pairs[:, 1], graph.num_ops)


def greedy_positions(successors: RaggedRows, priorities: np.ndarray) -> np.ndarray:
    """int32[O]: positions of ops where the schedulable op of highest priority always runs next.

    Ties go to the lowest op. OptionError for priorities that are not float[O], or not finite.
    """
    priorities = _checked(successors, priorities)
    position = np.empty(len(priorities), np.int32)
    _greedy(successors.offsets, successors.values, -priorities, position)
    return position


def sampled_positions(
    successors: RaggedRows, priorities: np.ndarray, uniforms: np.ndarray
) -> np.ndarray:
    """int32[S, O]: positions in S orders, from numbers float64[S, O] uniform in [0, 1)."""
    priorities = _checked(successors, priorities)
    if uniforms.shape[1:] != priorities.shape:
        raise OptionError(f"uniforms must be float[S, {len(priorities)}]")
    relative = priorities - priorities.max(initial=-np.inf)
    weight = np.exp(np.maximum(relative, -LARGEST_EXPONENT))
    position = np.empty(uniforms.shape, np.int32)
    size = 1 << max(len(weight) - 1, 0).bit_length()
    scratch = np.empty(2 * size), np.empty(len(weight), np.int64)
    for row in range(len(uniforms)):
        _draw(successors.offsets, successors.values, weight, uniforms[row], *scratch, position[row])
    return position


def batch_positions(
    relations: Relations, priorities: np.ndarray, uniforms: np.ndarray | None
) -> np.ndarray:
    """int32[B, S, O]: orders of B padded graphs on all cores; without ``uniforms``
    float64[B, S, O], the greedy order of each (S = 1). Padding gets position O."""
    num_ops = priorities.shape[1]
    samples = 1 if uniforms is None else uniforms.shape[1]
    senders, receivers, is_real = (
        np.asarray(leaf) for leaf in (relations.senders, relations.receivers, relations.real)
    )
    positions = np.full((len(priorities), samples, num_ops), num_ops, np.int32)

    def decode(first: int, last: int) -> None:
        for row in range(first, last):
            real, inside = int(is_real[row].sum()), senders[row] < num_ops
            successors = ragged_rows(senders[row][inside], receivers[row][inside], real)
            priority = priorities[row, :real]
            if uniforms is None:
                positions[row, 0, :real] = greedy_positions(successors, priority)
            else:
                own = uniforms[row, :, :real]
                positions[row, :, :real] = sampled_positions(successors, priority, own)

    over_threads(decode, len(priorities), positions.size)
    return positions


def order_of(position: np.ndarray) -> np.ndarray:
    """int32[O]: the ops in order, from their positions."""
    return np.argsort(position, kind="stable").astype(np.int32)


def _checked(successors: RaggedRows, priorities: np.ndarray) -> np.ndarray:
    priorities = np.asarray(priorities, np.float64)
    num_ops = len(successors.offsets) - 1
    if priorities.shape != (num_ops,) or not np.all(np.isfinite(priorities)):
        raise OptionError(f"priorities must be {num_ops} finite numbers, one for each op")
    return priorities


@jit_with_arrays
def _greedy(offsets, values, key, position):
    """Always runs the schedulable op of least key."""
    missing = np.zeros(len(key), np.int64)
    _count(values, missing)
    heap = [(0.0, np.int64(0))]
    heap.pop()
    for first in range(len(key)):
        if missing[first] == 0:
            heapq.heappush(heap, (key[first], np.int64(first)))
    for step in range(len(key)):
        op = heapq.heappop(heap)[1]
        position[op] = step
        for at in range(offsets[op], offsets[op + 1]):
            after = np.int64(values[at])
            missing[after] -= 1
            if missing[after] == 0:
                heapq.heappush(heap, (key[after], after))


@jit_with_arrays
def _draw(offsets, values, weight, uniform, tree, missing, position):
    """Runs schedulable ops with odds of their weights; ``tree[size + op]`` is the op's weight while
    it is schedulable, ``tree[node]`` the sum of its children ``2 node`` and ``2 node + 1``."""
    num_ops, size = len(weight), len(tree) // 2
    tree[:], missing[:] = 0.0, 0
    _count(values, missing)
    for op in range(num_ops):
        if missing[op] == 0:
            tree[size + op] = weight[op]
    for node in range(size - 1, 0, -1):
        tree[node] = tree[2 * node] + tree[2 * node + 1]
    for step in range(num_ops):
        left, node = uniform[step] * tree[1], 1
        while node < size:
            node *= 2
            if tree[node] == 0.0 or (left >= tree[node] and tree[node + 1] > 0.0):
                left -= tree[node]
                node += 1
        op = node - size
        position[op] = step
        _set(tree, node, 0.0)
        for at in range(offsets[op], offsets[op + 1]):
            after = values[at]
            missing[after] -= 1
            if missing[after] == 0:
                _set(tree, size + after, weight[after])


@jit_with_arrays
def _count(values, missing):
    for at in range(len(values)):
        missing[values[at]] += 1


@jit_with_arrays
def _set(tree, node, value):
    tree[node] = value
    while node > 1:
        node //= 2
        tree[node] = tree[2 * node] + tree[2 * node + 1]

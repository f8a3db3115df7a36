"""Precedence between ops: levels, transitive closure and reduction, critical path.

Reachability is bit-packed: row ``u`` of a closure is ``W = ceil(O / 64)`` words, and op ``v`` is
bit ``v % 64`` (the least significant is bit 0) of word ``v // 64``. Bits past ``O`` are zero.

The kernels take the distinct op pairs of a graph sorted by the topological position of their first
op. Then every pair into an op comes before every pair out of it, and one pass over the pairs
(forwards for what precedes an op, backwards for what follows it) is a dynamic programme.
"""

import numba
import numpy as np

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph


def check_order(graph: ComputationGraph, order: np.ndarray, what: str) -> None:
    """Raises OptionError, of what is asked for, unless an order holds every op once and each after
    those that make its inputs."""
    if not np.array_equal(np.sort(order), np.arange(graph.num_ops)):
        raise OptionError(f"{what}: the order must hold every op once")
    position = np.argsort(order)
    makers, _, readers = graph.edges.T
    if late := np.flatnonzero(position[makers] > position[readers]).tolist():
        first, second = makers[late[0]], readers[late[0]]
        raise OptionError(f"{what}: op {second} comes before op {first}, which makes its input")


def levels(graph: ComputationGraph) -> np.ndarray:
    """int32[O]: ops on the longest path from a source to each op, itself left out (sources: 0)."""
    ones = np.ones(graph.num_ops)
    return _longest_before(_pairs_in_topological_order(graph), ones).astype(np.int32)


def levels_to_sinks(graph: ComputationGraph) -> np.ndarray:
    """int32[O]: ops on the longest path from each op to a sink, itself left out (sinks: 0)."""
    reverse = _pairs_in_topological_order(graph)[::-1, ::-1]
    ones = np.ones(graph.num_ops)
    return _longest_before(np.ascontiguousarray(reverse), ones).astype(np.int32)


def nearest_end_first(graph: ComputationGraph) -> np.ndarray:
    """Ops by their distance to the nearest end of the graph, source or sink; not a valid sequence.

    A train step runs its layers forth and back, so ops of one layer stand together: cut into
    contiguous parts, this is a pipeline that keeps a layer's activations on one device.
    """
    fold = np.minimum(levels(graph), levels_to_sinks(graph))
    return np.argsort(fold, kind="stable").astype(np.int32)


def top_levels(graph: ComputationGraph) -> np.ndarray:
    """float64[O]: the longest path of durations before each op, its own left out, microseconds.

    The earliest start of each op with unlimited devices and free transfers.
    """
    return _longest_before(_pairs_in_topological_order(graph), graph.duration)


def bottom_levels(graph: ComputationGraph) -> np.ndarray:
    """float64[O]: the longest path of durations from each op on, its own included, microseconds."""
    reversed_pairs = _pairs_in_topological_order(graph)[::-1, ::-1]
    return _longest_before(np.ascontiguousarray(reversed_pairs), graph.duration) + graph.duration


def critical_path(graph: ComputationGraph) -> tuple[float, np.ndarray]:
    """The longest path of durations: its length in microseconds and its ops, int32[P], in order.

    Of several such paths, each step takes the lowest op index. An empty graph has length 0.
    """
    if graph.num_ops == 0:
        return 0.0, np.zeros(0, np.int32)
    bottom, pairs = bottom_levels(graph), graph.op_pairs
    starts = np.searchsorted(pairs[:, 0], np.arange(graph.num_ops + 1))
    path = [int(np.argmax(bottom))]
    while len(successors := pairs[starts[path[-1]] : starts[path[-1] + 1], 1]):
        path.append(int(successors[np.argmax(bottom[successors])]))
    return float(bottom[path[0]]), np.array(path, np.int32)


def closure(graph: ComputationGraph) -> np.ndarray:
    """uint64[O, W]: the strict descendants of each op, bit-packed (see the module's text)."""
    return _closure(_pairs_in_topological_order(graph), graph.num_ops)


def unpack(closure: np.ndarray) -> np.ndarray:
    """bool[O, O]: a closure as a dense matrix, ``[u, v]`` is whether ``v`` descends from ``u``."""
    num_ops, words = closure.shape
    octets = closure.astype("<u8").view(np.uint8).reshape(num_ops, 8 * words)
    return np.unpackbits(octets, axis=1, bitorder="little")[:, :num_ops].astype(bool)


def transitive_reduction(graph: ComputationGraph) -> np.ndarray:
    """int32[E'', 2]: the op pairs that no longer path implies, in lexicographic order.

    The smallest set of pairs with the closure of the graph. Pair ``(u, v)`` is implied exactly if
    another successor of ``u`` reaches ``v``.
    """
    position = graph.position
    pairs = graph.op_pairs
    by_position = pairs[np.lexsort((position[pairs[:, 1]], pairs[:, 0]))]
    kept = by_position[_necessary(by_position, closure(graph))]
    return kept[np.lexsort((kept[:, 1], kept[:, 0]))]


def _pairs_in_topological_order(graph: ComputationGraph) -> np.ndarray:
    pairs = graph.op_pairs
    return pairs[np.argsort(graph.position[pairs[:, 0]], kind="stable")]


@numba.njit(cache=True)
def _longest_before(pairs: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """float64[O]: the heaviest path that ends just before each op; ``weight`` is float64[O]."""
    longest = np.zeros(len(weight))
    for edge in range(len(pairs)):
        before, after = pairs[edge, 0], pairs[edge, 1]
        longest[after] = max(longest[after], longest[before] + weight[before])
    return longest


@numba.njit(cache=True)
def _closure(pairs: np.ndarray, num_ops: int) -> np.ndarray:
    descendants = np.zeros((num_ops, (num_ops + 63) // 64), np.uint64)
    for edge in range(len(pairs) - 1, -1, -1):
        before, after = pairs[edge, 0], pairs[edge, 1]
        _unite(descendants[before], descendants[after])
        descendants[before, after // 64] |= np.uint64(1) << np.uint64(after % 64)
    return descendants


@numba.njit(cache=True)
def _unite(words: np.ndarray, others: np.ndarray) -> None:
    """Adds a set of bits to another, word by word: Numba's own ``|=`` compiles for seconds."""
    for word in range(len(words)):
        words[word] |= others[word]


@numba.njit(cache=True)
def _necessary(pairs: np.ndarray, descendants: np.ndarray) -> np.ndarray:
    """bool[E']: pairs to keep; those of one first op are adjacent, second ops topological."""
    keep = np.zeros(len(pairs), np.bool_)
    implied = np.zeros(descendants.shape[1], np.uint64)
    for edge in range(len(pairs)):
        after = pairs[edge, 1]
        if edge == 0 or pairs[edge, 0] != pairs[edge - 1, 0]:
            implied[:] = 0
        bit = np.uint64(1) << np.uint64(after % 64)
        if implied[after // 64] & bit == 0:
            keep[edge] = True
            _unite(implied, descendants[after])
    return keep


def connected_components(graph: ComputationGraph) -> np.ndarray:
    """int[O]: label of the part each op is in, from 0 on; no edge joins two parts."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components as label

    pairs = graph.op_pairs
    links = coo_array((np.ones(len(pairs)), pairs.T), (graph.num_ops, graph.num_ops))
    return label(links, directed=False)[1]


def width(graph: ComputationGraph) -> int:
    """The most ops of which none precedes another: no more can be ready at once.

    The ops less a maximum matching of the pairs (u, v) with a path from u to v (Dilworth's theorem,
    Fulkerson 1956), as a flow that may run through the ops between, so that the closure isn't made.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    num_ops, (before, after) = graph.num_ops, graph.op_pairs.T
    ops = np.arange(num_ops)
    leaves, enters, source, target = ops, ops + num_ops, 2 * num_ops, 2 * num_ops + 1
    links = [
        (np.full(num_ops, source), leaves, 1),
        (leaves[before], enters[after], num_ops),
        (enters, leaves, num_ops),
        (enters, np.full(num_ops, target), 1),
    ]
    tails, heads = (np.concatenate([link[end] for link in links]) for end in (0, 1))
    capacity = np.concatenate([np.full(len(tail), most, np.int32) for tail, _, most in links])
    size = 2 * num_ops + 2
    network = csr_array((capacity, (tails, heads)), (size, size))
    return num_ops - int(maximum_flow(network, source, target).flow_value)

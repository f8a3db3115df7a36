"""Earliest starts and shortest rests of ops where transfers between devices take time.

What an op reads is made on its own device, which runs one op at a time, or arrives late. So it
starts at T at the earliest if those of its predecessors whose data would arrive after T from
elsewhere fit on its device before T, one after the other, none before its own earliest start. The
least such T is the op's head; tails are the heads of the reversed graph. Where transfers are free,
they are the longest paths.
"""

import numba
import numpy as np

from regal_jax.environments.platform import Platform
from regal_jax.environments.rcpsp.bounds import EXACT, Ends, unit_of
from regal_jax.graphs.computation_graph import ComputationGraph


def ends(graph: ComputationGraph, platform: Platform) -> Ends:
    """Heads and tails of all ops, in us, on identical devices with the platform's transfers."""
    pairs, delay = delays(graph, platform)
    position = graph.position
    heads = _heads(*_by_reader(pairs, delay, position), graph.duration)
    back = _by_reader(pairs[:, ::-1], delay, graph.num_ops - 1 - position)
    tails = _heads(*back, graph.duration)
    times = np.concatenate([graph.duration, delay])
    return Ends(heads, tails, unit_of(times) > 0 and times.sum() < EXACT[0])


def delays(graph: ComputationGraph, platform: Platform) -> tuple[np.ndarray, np.ndarray]:
    """int32[P, 2] pairs of ops, and float64[P], us: until the last tensor of a pair has crossed."""
    pairs, of_edge = np.unique(graph.edges[:, [0, 2]], axis=0, return_inverse=True)
    delay = np.zeros(len(pairs))
    each = platform.latency + graph.size[graph.edges[:, 1]].astype(float) * platform.per_byte
    np.maximum.at(delay, of_edge.ravel(), each)
    return pairs, delay


def _by_reader(pairs: np.ndarray, delay: np.ndarray, position: np.ndarray):
    """(int[P, 2], float64[P]): the pairs of each second op together, those in the order given."""
    order = np.argsort(position[pairs[:, 1]], kind="stable")
    return np.ascontiguousarray(pairs[order]), delay[order]


@numba.njit(cache=True)
def _heads(pairs: np.ndarray, delay: np.ndarray, duration: np.ndarray) -> np.ndarray:
    heads = np.zeros(len(duration))
    first = 0
    while first < len(pairs):
        reader, last = pairs[first, 1], first
        while last < len(pairs) and pairs[last, 1] == reader:
            last += 1
        before = pairs[first:last, 0]
        heads[reader] = _least_start(heads[before], duration[before], delay[first:last])
        first = last
    return heads


@numba.njit(cache=True)
def _least_start(heads: np.ndarray, duration: np.ndarray, delay: np.ndarray) -> float:
    """us: the more of the latest arrivals are made at home, the later that ends, and the earlier
    the last of the others arrives; the best number of them is found by bisection."""
    latest_first = np.argsort(-(heads + duration + delay))
    rank = np.empty(len(heads), np.int64)
    rank[latest_first] = np.arange(len(heads))
    by_head = np.argsort(heads)
    low, high = 0, len(heads)
    while low < high:
        middle = (low + high) // 2
        late = latest_first[middle]
        if _end_of(by_head, rank, middle, heads, duration) < (
            heads[late] + duration[late] + delay[late]
        ):
            low = middle + 1
        else:
            high = middle
    least = _end_of(by_head, rank, low, heads, duration)
    if low > 0:
        late = latest_first[low - 1]
        least = min(least, heads[late] + duration[late] + delay[late])
    return least


@numba.njit(cache=True)
def _end_of(by_head, rank: np.ndarray, count: int, heads, duration) -> float:
    """us: when the ``count`` latest arrivals end at the earliest if they share a device."""
    end = 0.0
    for op in by_head:
        if rank[op] < count:
            end = max(end, heads[op]) + duration[op]
    return end

"""Where to cut an order: in the valleys of what is live, the most prominent first.

Everything that is live at a cut goes through the barrier, so it has to be in memory there; a cut
in a valley asks for little that wouldn't be. A valley's prominence is how far one must climb from
it to reach a lower one, so the first few cuts are also far apart in what they separate.
"""

from collections.abc import Sequence

import numpy as np

from regal_jax.graphs.computation_graph import ComputationGraph


def live_bytes(graph: ComputationGraph, order: Sequence[int]) -> np.ndarray:
    """int64[O + 1]: bytes made by ops before each position that ops from there on still read.

    Arguments and results aren't counted: these are in memory wherever the cut is.
    """
    position = np.empty(graph.num_ops, np.int64)
    position[np.asarray(order, np.int64)] = np.arange(graph.num_ops)
    change = np.zeros(graph.num_ops + 2, np.int64)
    for tensor in range(graph.num_tensors):
        readers = graph.consumers.row(tensor)
        if graph.producer[tensor] >= 0 and len(readers) and not graph.persistent[tensor]:
            change[position[graph.producer[tensor]] + 1] += graph.size[tensor]
            change[position[readers].max() + 1] -= graph.size[tensor]
    return np.cumsum(change)[:-1]


def valleys(live: np.ndarray) -> list[int]:
    """Positions of the local minima inside, the most prominent first, of a plateau the first.

    Args:
      live: int64[N]; the ends are no cuts, and higher than anything.
    """
    height = [int(value) for value in live[1:-1]]
    owner: dict[int, int] = {}  # of a run of positions that are flooded: the lowest one
    prominence: dict[int, float] = {}
    parent = list(range(len(height)))

    def find(one: int) -> int:
        while parent[one] != one:
            parent[one] = one = parent[parent[one]]
        return one

    for here in sorted(range(len(height)), key=lambda i: (height[i], i)):
        owner[here] = here
        for beside in (here - 1, here + 1):
            if beside not in owner:
                continue
            low, high = sorted((find(here), find(beside)), key=lambda i: (height[owner[i]], i))
            if low != high:
                prominence[owner[high]] = height[here] - height[owner[high]]
                parent[high] = low
    if height:
        prominence[owner[find(0)]] = float("inf")
    minima = [one for one, rise in prominence.items() if rise > 0]
    return [one + 1 for one in sorted(minima, key=lambda i: (-prominence[i], height[i], i))]


def cut_at(places: Sequence[int], number: int) -> tuple[int, ...]:
    """So many of the best places, ascending."""
    return tuple(sorted(places[:number]))

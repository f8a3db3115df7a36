"""Orders by nested minimum cuts: what needs most runs where least is in memory.

For the op that needs most in an order, a minimum cut says after which other ops it had better run.
They come before it, all others after it, and the order falls into two parts, in which the same is
done again: cuts of later ops keep to the part that they are in. When the op that needs most has had
its turn already, it is to blame on the earlier cuts, and the next order begins with it: squeaky
wheel optimisation (Joslin and Clements 1999).
"""

import bisect
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from regal_jax.environments.placement import min_cut
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.native import max_flow

MOST_STALLED = 40
"""Orders in a row without a better one, after which it ends."""
MOST_FIRST = 200
"""Ops that are remembered to come first."""


class Found(NamedTuple):
    """The best order.

    Attributes:
      order: int64[O]. peak: its bytes on one device.
      flows: maximum flows that were sent.
    """

    order: np.ndarray
    peak: int
    flows: int


def improve(
    graph: ComputationGraph,
    order: np.ndarray,
    *,
    lower_bound: int,
    most_flows: float,
    stops: Callable[[], bool] = lambda: False,
    seed: int = 0,
) -> Found:
    """A better order on one device than the one given, if any is found.

    Args:
      graph: the graph. order: int[O], a valid order.
      lower_bound: bytes, at which it ends.
      most_flows: how many flows to send at most, about: it is looked at before each order.
      stops: () -> whether to stop, asked as often.
      seed: of what comes first when it goes in circles.
    """
    network, rng = min_cut.Network(graph), np.random.default_rng(seed)
    best = Found(np.asarray(order), int(min_cut.step_bytes(graph, order).max(initial=0)), 0)
    first: list[int] = []
    seen, stalled = set(), 0
    while best.peak > lower_bound and stalled < MOST_STALLED:
        if best.flows >= most_flows or stops():
            break
        nested = _NestedCuts(network, best.order)
        peak, squeaky = nested.fill(first)
        flows, stalled = best.flows + nested.flows, stalled + 1
        if peak < best.peak:
            best, stalled = Found(nested.order, peak, flows), 0
        best = best._replace(flows=flows)
        first = [squeaky, *(op for op in first if op != squeaky)][:MOST_FIRST]
        if (tuple(first), best.peak) in seen:
            first.insert(0, first.pop(int(rng.integers(len(first)))))
        seen.add((tuple(first), best.peak))
    return best


class _NestedCuts:
    """An order that falls into parts, more with each cut.

    Attributes:
      order: int64[O].
      flows: how many were sent.
    """

    def __init__(self, network: min_cut.Network, order: np.ndarray):
        self.order, self.flows = np.array(order, np.int64), 0
        self._network, self._placed = network, np.zeros(len(order), bool)
        self._ends = [0, len(order)]  # of the parts
        self._position = np.empty(len(order), np.int64)
        self._position[self.order] = np.arange(len(order))

    def fill(self, first: list[int]) -> tuple[int, int]:
        """(bytes of the peak, its op) after cuts for some ops, then for those that need most."""
        for op in first:
            self._cut(op)
        while True:
            needs = min_cut.step_bytes(self._network.graph, self.order)
            op = int(needs.argmax())
            if self._placed[op]:
                return int(needs[op]), op
            self._cut(op)

    def _cut(self, op: int) -> None:
        """Puts an op where its least cut within its part is."""
        self._placed[op] = True
        place = bisect.bisect_right(self._ends, self._position[op])
        low, high = self._ends[place - 1], self._ends[place]
        if high - low == 1:
            return
        side = self._network.sides(op)
        side[self.order[:low]], side[self.order[high:]] = max_flow.SOURCE, max_flow.SINK
        self._network.send(self._network.unused(), side)
        self.flows += 1
        part = self.order[low:high].copy()
        runs_before = self._network.level[part] >= 0
        later = part[~runs_before]
        middle = low + len(part) - len(later)
        self.order[low:middle] = part[runs_before]
        self.order[middle] = op
        self.order[middle + 1 : high] = later[later != op]
        self._position[self.order[low:high]] = np.arange(low, high)
        self._ends[place:place] = [end for end in (middle, middle + 1) if low < end < high]

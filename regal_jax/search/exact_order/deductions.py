"""What all orders within so many bytes have in common, by minimum cuts.

While op v runs, the least that is in memory over all sets of ops that may have run before it is a
minimum cut (``environments.placement.min_cut``). If that is more than the limit for all sets
without op u, every order within the limit has u before v; if it is for all sets with u, then u
comes after v. Such pairs of ops enter the network, where they make other cuts larger, until nothing
new follows, or some cut is beyond the limit in any case: then no order is within it. This is
edge-finding (Carlier and Pinson 1989) with memory for a machine and cuts for its energy.
"""

import heapq

import numpy as np

from regal_jax.environments.placement import min_cut
from regal_jax.environments.placement.set_bound import set_bound
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.native import max_flow

MOST_OPS = 6000
"""Larger graphs are left alone: there is a byte for each pair of ops."""
OPS_TRIED = 60
"""Ops v that are tried in each round, those that need most in a known order."""


class Deductions:
    """Pairs of ops that all orders within a limit have in the same order.

    Attributes:
      graph: the graph.
      pairs: [(u, v)]: what was deduced.
      descendants: bool[O, O], which ops come after an op, by the graph and by what was deduced.
      refuted: whether there is no order at all.
      flows: maximum flows that were sent, the unit of effort.
    """

    def __init__(self, graph: ComputationGraph, descendants: np.ndarray):
        self.graph = graph
        self.pairs: list[tuple[int, int]] = []
        self.descendants = descendants.copy()
        self.refuted = False
        self.flows = 0
        self._network = min_cut.Network(graph)
        self._rank = graph.position

    def all_pairs(self) -> np.ndarray:
        """int32[P, 2]: the graph's pairs of ops, and what was deduced."""
        return self._network.pairs

    def deduce(self, limit: int, order: np.ndarray, most_flows: int, stops) -> None:
        """Deduces what follows from a limit in bytes, until nothing does or a budget is spent.

        Args:
          limit: bytes.
          order: int[O], a known order; the ops that need most in it are tried first.
          most_flows: flows to send at most. stops: () -> whether to stop before.
        """
        needs = min_cut.step_bytes(self.graph, order)
        tried = heapq.nlargest(OPS_TRIED, range(len(needs)), key=needs.__getitem__)
        changed = True
        while changed and not self.refuted:
            changed = False
            for op in tried:
                if self.flows >= most_flows or stops():
                    return
                changed |= self._deduce_at(op, limit)
                if self.refuted:
                    return
        if self.pairs:
            found = set_bound(self._network, order, limit, stops)
            self.flows += found.flows
            self.refuted = found.num_bytes > limit

    def _deduce_at(self, op: int, limit: int) -> bool:
        """What follows from one op's cuts; whether that is something new."""
        network, num_ops = self._network, self.graph.num_ops
        side = network.sides_of(op, self.descendants[:, op], self.descendants[op])
        left = network.unused()
        room = limit - int(network.own[op]) - self._send(left, side)
        if room < 0:
            self.refuted = True
            return False
        free = side[:num_ops] == max_flow.INSIDE
        within = network.level[:num_ops] >= 0
        first = self._beyond(left, side, free & within, room, self.descendants.T, max_flow.SINK)
        follows = free & network.reaching(left, side)[:num_ops]
        follows[first] = False
        later = self._beyond(left, side, follows, room, self.descendants, max_flow.SOURCE)
        return self._add([(one, op) for one in first] + [(op, one) for one in later])

    def _beyond(self, left, side, candidates, room: int, implied, kind: int) -> list[int]:
        """The candidates that can't be on one side of a cut with so much room beyond the least.

        Candidates that imply most are tried first, and those that a cut has on that side are not.
        ``implied[u]`` are the ops that have to be where u has to be.
        """
        order = np.flatnonzero(candidates)
        order = order[np.argsort(self._rank[order])]
        found, pending = [], candidates.copy()
        for op in order[::-1] if kind == max_flow.SINK else order:
            if not pending[op]:
                continue
            again, moved = left.copy(), side.copy()
            others = self.descendants[op] if kind == max_flow.SINK else self.descendants[:, op]
            moved[: len(others)][others] = kind
            moved[op] = kind
            pending[op] = False
            if self._send(again, moved) > room:
                found.append(int(op))
                pending &= ~implied[op]
            else:
                has_run = self._network.level[: len(pending)] >= 0
                pending &= has_run if kind == max_flow.SINK else ~has_run
        return found

    def _add(self, pairs: list[tuple[int, int]]) -> bool:
        after = self.descendants
        fresh = False
        for first, second in pairs:
            if first == second or after[second, first]:
                self.refuted = True
                return False
            if after[first, second]:
                continue
            self.pairs.append((first, second))
            before = np.append(np.flatnonzero(after[:, first]), first)
            after[np.ix_(before, np.append(np.flatnonzero(after[second]), second))] = True
            fresh = True
        if fresh:
            self._network = min_cut.Network(self.graph, np.array(self.pairs, np.int32))
        return fresh

    def _send(self, left, side) -> int:
        self.flows += 1
        return self._network.send(left, side)

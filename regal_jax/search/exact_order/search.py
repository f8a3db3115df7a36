"""An order of least peak memory on one device, and the proof that there is none better.

A *down-set* holds, with each op, what it waits for. Let f(S) be the bytes in memory after the ops
of S; f(S or T) + f(S and T) <= f(S) + f(T), as for every cut. From these follows (docs/proofs.md):

- *Commits.* Let S contain A, be reached from it within a limit, and f(S) <= f(Y) for all down-sets
  Y between them. Whoever can finish from A within the limit can finish from S. So a search that
  finds such an S forgets everything else; from the end backwards, too.
- *Lower ground.* If any S is reached with f(S) <= f(A), the largest least Y between A and S is
  reached within the limit as well, and a commit.
- *Lazy ops* (``sides.lazy_ops``) run when another op needs them, ops that raise nothing at once.
- *Sets* (``placement.set_bound``): some op runs first of each set, and some op last.
- *Deductions* (``deductions``) order ops that every order within the limit orders so.

``nested_cuts`` finds good orders. ``_Climb`` commits from both ends for one limit. It finds an
order, or exhausts what can be reached from one end and so proves that there is none, or gives up.
``GapSearch`` decides for limits between the bound and the best order, with more and more effort,
until they meet.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from regal_jax.environments.placement import min_cut
from regal_jax.environments.placement.set_bound import set_bound
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.native import max_flow
from regal_jax.search.exact_order import kernel, sides
from regal_jax.search.exact_order.deductions import MOST_OPS, Deductions
from regal_jax.search.orders import nested_cuts
from regal_jax.search.orders.dynamic_programming import order_peak

EFFORTS = (1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000)
"""Sets that one search for lower ground may reach, from round to round; a set takes 200 bytes."""
FLOWS = 2_000
"""Maximum flows that deductions for one limit may send in the first round; twice as many in each
that follows."""
LEAST_GAIN = 0.05
"""Of the gap, for which a round is repeated with the same effort."""
MOST_FAILURES = 3
"""Limits that couldn't be decided, after which the bound is left for other work."""
STEPS = 1000
"""The bound rises by deductions while a step is at least the gap over this."""


@dataclasses.dataclass(frozen=True, eq=False)
class Proof:
    """What is known of the least peak.

    Attributes:
      order: int64[O], the best order.
      peak: its bytes.
      lower_bound: no order needs less.
      states: sets of ops that were reached; a maximum flow counts as many as there are ops.
    """

    order: np.ndarray
    peak: int
    lower_bound: int
    states: int

    @property
    def is_optimal(self) -> bool:
        return self.lower_bound >= self.peak


class GapSearch:
    """A search for the best order and the best bound, which meet in the end.

    Args:
      graph: the graph.
      order: int[O], an order to improve on.
      lower_bound: bytes that every order needs, such as ``min_cut_bound``'s.

    Attributes:
      proof: what is known by now.
    """

    def __init__(self, graph: ComputationGraph, order: np.ndarray, lower_bound: int):
        self.graph = graph
        self.descendants = None
        if graph.num_ops <= MOST_OPS:
            self.descendants = precedence.unpack(precedence.closure(graph))
        self.plain = sides.both_sides(graph, graph.op_pairs, self.descendants)
        self.undecided: dict[int, int] = {}  # limit: sets, without finding out
        self.undeduced: dict[int, int] = {}  # limit: flows, without refuting it
        self.deductions: Deductions | None = None  # the last
        self.deduced_limit = -1
        self.turn = 0
        bound = max(lower_bound, min_cut.given_bytes(graph))
        self.proof = Proof(np.asarray(order), order_peak(graph, order), bound, 0)

    def run(
        self,
        most_states: int,
        out_of_time: Callable[[], bool] = lambda: False,
        on_progress: Callable[[Proof], None] = lambda proof: None,
    ) -> None:
        """Spends a budget.

        Args:
          most_states: sets to reach at most (``Proof.states``; it can be a little more, since it is
            looked at before each search for lower ground).
          out_of_time: asked as often; True ends the run.
          on_progress: called with each better order or bound.
        """
        self.most_states, self.out_of_time = most_states, out_of_time
        self.on_progress = on_progress
        while self._goes_on and self.turn < len(EFFORTS):
            self._narrow(EFFORTS[self.turn], FLOWS * 2**self.turn)
            self.turn += self._goes_on

    @property
    def _goes_on(self) -> bool:
        return not (self.proof.is_optimal or self._counted(self.proof.states))

    def _narrow(self, effort: int, most_flows: int) -> None:
        """Decides for limits from the bound to below the best peak until that gains little."""
        gap = None
        while self._goes_on and (gap is None or self._gap <= gap * (1 - LEAST_GAIN)):
            is_first, gap = gap is None, self._gap
            self._rise(lambda limit: self._climb(limit, effort))
            if self._goes_on and is_first:
                self._nest(most_flows)
            if self._goes_on and is_first and self.turn == 0:
                self._bound_by_sets()
            if self._goes_on and self.descendants is not None:
                self._deduce_bound(most_flows)
            if self._goes_on and self.deductions is not None and self.deductions.pairs:
                self._rise(lambda limit: self._deduce_and_climb(limit, effort, most_flows))
            low, high = self.proof.lower_bound, self.proof.peak
            for limit in (high - 1, (low + high) // 2):
                if self._goes_on and self.proof.lower_bound < limit < self.proof.peak:
                    self._climb(limit, effort)

    def _nest(self, most_flows: int) -> None:
        """Better orders by nested cuts."""
        proof = self.proof
        found = nested_cuts.improve(
            self.graph,
            proof.order,
            lower_bound=proof.lower_bound,
            most_flows=most_flows,
            stops=lambda: self._counted(proof.states),
            seed=self.turn,
        )
        self._learn(states=proof.states + found.flows * self.graph.num_ops)
        if found.peak < proof.peak:
            self._learn(order=found.order, peak=found.peak)

    @property
    def _gap(self) -> int:
        return self.proof.peak - self.proof.lower_bound

    def _rise(self, decides: Callable[[int], bool]) -> None:
        """Decides for limits from the bound on, in steps that grow while it can."""
        step, failures = 0, 0
        while self._goes_on and failures < MOST_FAILURES:
            begin = self.proof.lower_bound
            if decides(min(begin + step, self.proof.peak - 1)):
                step = max(2 * step, self.proof.lower_bound - begin)
            else:
                step, failures = step // 4, failures + (1 if step else MOST_FAILURES)

    def _bound_by_sets(self) -> None:
        """Raises the bound by the ops that run first or last of sets."""
        proof, network = self.proof, min_cut.Network(self.graph)
        found = set_bound(network, proof.order, proof.lower_bound, self.out_of_time)
        self._learn(states=proof.states + found.flows * self.graph.num_ops)
        if found.ops.size:
            self._learn(lower_bound=min(found.num_bytes, proof.peak))

    def _deduce_bound(self, most_flows: int) -> None:
        """Refutes limits by deductions alone."""
        begin, high = self.proof.lower_bound, self.proof.peak - 1
        if self._refutes(high, most_flows) or not self._refutes(begin, most_flows):
            return
        low = begin
        while self._goes_on and high - low > max(1, (high - begin) // STEPS):
            middle = (low + high) // 2
            if self._refutes(middle, most_flows):
                low = middle
            else:
                high = middle

    def _refutes(self, limit: int, most_flows: int) -> bool:
        """Whether deductions alone refute a limit."""
        if limit != self.proof.lower_bound and self.undeduced.get(limit, 0) >= most_flows:
            return False
        deductions = self._deduced(limit, most_flows)
        if not deductions.refuted:
            self.undeduced[limit] = most_flows
        return deductions.refuted

    def _deduced(self, limit: int, most_flows: int) -> Deductions:
        """Keeps what follows from a limit, and raises the bound if it is refuted."""
        assert self.descendants is not None
        deductions = Deductions(self.graph, self.descendants)
        deductions.deduce(limit, self.proof.order, most_flows, self.out_of_time)
        self._learn(states=self.proof.states + deductions.flows * self.graph.num_ops)
        if deductions.refuted:
            self._learn(lower_bound=limit + 1)
        self.deduced_limit, self.deductions = limit, deductions
        return deductions

    def _deduce_and_climb(self, limit: int, effort: int, most_flows: int) -> bool:
        """Decides for a limit by deductions and, with them, commits; whether it could."""
        if limit != self.deduced_limit:
            self._deduced(limit, most_flows)
        deductions = self.deductions
        assert deductions is not None
        return deductions.refuted or self._climb(limit, effort, deductions)

    def _climb(self, limit: int, effort: int, deductions: Deductions | None = None) -> bool:
        """Decides for a limit by commits; whether it could. Not again what was tried before."""
        if deductions is None and self.undecided.get(limit, 0) >= effort:
            return False
        if deductions is None:
            climb = _Climb(self.graph, self.plain)
        else:
            pairs, descendants = deductions.all_pairs(), deductions.descendants
            climb = _Climb(self.graph, sides.both_sides(self.graph, pairs, descendants))
        before = self.proof.states
        more = climb.meet(limit, effort, lambda: self._counted(before + climb.states))
        self._learn(states=before + climb.states)
        if climb.is_done:
            found = climb.order()
            self._learn(order=found, peak=order_peak(self.graph, found))
        elif more is not None:
            least = max(more, limit + 1) if deductions is None else limit + 1
            self._learn(lower_bound=min(least, self.proof.peak))
        decided = climb.is_done or more is not None
        if deductions is None and not decided:
            self.undecided[limit] = effort
        return decided

    def _counted(self, states: int) -> bool:
        return states >= self.most_states or self.out_of_time()

    def _learn(self, **changes) -> None:
        better = "order" in changes or "lower_bound" in changes
        self.proof = dataclasses.replace(self.proof, **changes)
        if better:
            self.on_progress(self.proof)


class _Climb:
    """Commits from the start and from the end, within one limit."""

    def __init__(self, graph: ComputationGraph, both: list[tuple[sides.Side, sides.Ground]]):
        self.graph, self.states = graph, 0
        self.sides = [
            (side, sides.Ground(*(column.copy() for column in ground))) for side, ground in both
        ]
        self.in_use = [sides.bytes_at_start(graph, *one) for one in self.sides]
        self.orders: list[list[int]] = [[], []]
        self._stack = np.empty(graph.num_ops + 1, np.int32)

    @property
    def ops_left(self) -> int:
        return self.graph.num_ops - len(self.orders[0]) - len(self.orders[1])

    @property
    def is_done(self) -> bool:
        return self.ops_left == 0

    def order(self) -> np.ndarray:
        """int64[O]: forwards commits, then those from the end."""
        return np.array(self.orders[0] + self.orders[1][::-1], np.int64)

    def meet(self, limit: int, effort: int, stops: Callable[[], bool]) -> int | None:
        """Commits until the sides meet, or neither gets any further.

        Returns the least limit that isn't refuted, if this one is; else None.
        """
        failures, turn = 0, 0
        while not self.is_done and failures < 2 and not stops():
            side, ground = self.sides[turn]
            status, path, _, states, more = kernel.lower_ground(
                side, ground, self.in_use[turn], limit, self.ops_left, effort
            )
            self.states += states
            if status == kernel.EXHAUSTED:
                return int(more)
            if status == kernel.FOUND:
                self._commit(turn, path)
                failures = 0
            else:
                failures, turn = failures + 1, 1 - turn
        return None

    def _commit(self, turn: int, path: np.ndarray) -> None:
        side, ground = self.sides[turn]
        if 1 < len(path) < self.ops_left:
            path = path[least_between(side, ground, path)]
        other_side, other = self.sides[1 - turn]
        for op in path.tolist():
            self.in_use[turn] += int(kernel.run(side, ground, op, self._stack))
            other.barred[op] = 1
        self.orders[turn] += path.tolist()
        _wake(side, ground, other_side, other, path)


def least_between(side: sides.Side, ground: sides.Ground, path: np.ndarray) -> np.ndarray:
    """bool[P]: the ops of a path with which the least is in memory; of several sets the largest."""
    place = np.full(len(side.own), -1)
    place[path] = np.arange(len(path))
    opening, opened = _rows_of(path, side.opens_offsets, side.opens)
    closing, closed = _rows_of(path, side.closes_offsets, side.closes)
    waiting, before = _rows_of(path, side.before_offsets, side.before)
    waiting, before = waiting[place[before] >= 0], place[before][place[before] >= 0]
    tensors, which = np.unique(np.concatenate([opened, closed]), return_inverse=True)
    opened, closed = which[: len(opened)], which[len(opened) :]
    num_ops, num_tensors = len(path), len(tensors)
    start, end = num_ops + 2 * num_tensors, num_ops + 2 * num_tensors + 1
    is_open, shut = num_ops + np.arange(num_tensors), num_ops + num_tensors + np.arange(num_tensors)
    there = is_open[ground.opened[tensors] > 0]
    stays = shut[ground.left[tensors] > np.bincount(closed, minlength=num_tensors)]
    unlimited = int(side.size[tensors].sum()) + 1
    arcs = [
        (opening, is_open[opened], unlimited),
        (np.full(len(there), start), there, unlimited),
        (is_open, shut, side.size[tensors]),
        (shut[closed], closing, unlimited),
        (stays, np.full(len(stays), end), unlimited),
        (waiting, before, unlimited),
    ]
    network = min_cut.FlowNetwork(min_cut.Arcs.of(arcs, end + 1))
    left, ends = network.unused(), np.zeros(end + 1, np.int8)
    ends[start], ends[end] = max_flow.SOURCE, max_flow.SINK
    network.send(left, ends)
    return ~network.reaching(left, ends)[:num_ops]


def _rows_of(rows: np.ndarray, offsets: np.ndarray, values: np.ndarray):
    """(index into rows, value) of all values of some rows."""
    lengths = offsets[rows + 1] - offsets[rows]
    index = np.repeat(np.arange(len(rows)), lengths)
    within = np.arange(len(index)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return index, values[offsets[rows][index] + within]


def _wake(side: sides.Side, ground: sides.Ground, other_side: sides.Side, other, path) -> None:
    """Ops of the other side that no op of its own waits for any more are not lazy there."""
    _, neighbours = _rows_of(path, side.after_offsets, side.after)
    for op in np.unique(neighbours):
        row = other_side.after[other_side.after_offsets[op] : other_side.after_offsets[op + 1]]
        if other.lazy[op] and ground.inside[row].all():
            other.lazy[op] = 0

"""Lower bounds of peak memory by the op of a set that runs first, or last.

Where many branches are alike, each op's minimum cut lets the other branches run before or after it,
whichever is less. But of a set V of ops one runs first: then no other of V has run, nor what
descends from one. So the least over v in V of the minimum cuts without V below v is a bound, for
whatever set; and that of the one that runs last, with all others below it. Sets worth trying are
ops at one level of the graph, and ops that look alike from where they are.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from regal_jax.environments.placement import min_cut
from regal_jax.errors import BoundError
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.native import max_flow

LOOKS = 3
"""How far from an op its surroundings are compared."""
LARGEST = 500
"""Ops of a set at most: each is a flow."""


@dataclasses.dataclass(frozen=True, eq=False)
class SetBound:
    """No order needs less than ``num_bytes`` on all devices together.

    Attributes:
      num_bytes: the bound.
      ops: int64[K], the set.
      is_last: whether it is of the op that runs last of the set; else of the first.
      flows: int64[C, A], for each op of the set that may do so, in the order of ``ops``, along the
        arcs of ``min_cut.Network(graph)``.
    """

    num_bytes: int
    ops: np.ndarray
    is_last: bool
    flows: np.ndarray


class Found(NamedTuple):
    """What a search for a set found.

    Attributes:
      num_bytes: no order needs less.
      ops: int64[K], the set; empty if none shows more than was known.
      is_last: whether it is of the op that runs last of the set; else of the first.
      flows: how many were sent.
    """

    num_bytes: int
    ops: np.ndarray
    is_last: bool
    flows: int


def set_bound(
    network: min_cut.Network,
    order: np.ndarray,
    above: int,
    stops: Callable[[], bool] = lambda: False,
) -> Found:
    """The largest bound of the sets of ``alike``.

    Args:
      network: of the graph, perhaps with more pairs of ops that are known to follow each other.
      order: int[O], any order; the better, the fewer flows.
      above: bytes that are known to be needed.
      stops: () -> whether to stop before all sets are tried.
    """
    needs = min_cut.step_bytes(network.graph, order)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    ends = [
        (ops[np.argsort(position[ops])][:: -1 if is_last else 1], is_last)
        for ops in alike(network.graph)
        for is_last in (False, True)
    ]
    best, flows = Found(above, np.zeros(0, np.int64), False, 0), 0
    for ops, is_last in sorted(ends, key=lambda one: -needs[one[0][0]]):
        if needs[ops[0]] <= best.num_bytes or stops():
            break
        shown, sent = _shown(network, ops, is_last, best.num_bytes, stops)
        flows += sent
        if shown > best.num_bytes:
            best = Found(shown, np.sort(ops), is_last, flows)
    return best._replace(flows=flows)


def certified(graph: ComputationGraph, ops: np.ndarray, is_last: bool) -> SetBound:
    """The bound of a set with its flows, which anybody can check."""
    network = min_cut.Network(graph)
    shown, flows = [], []
    for op, side in _ends(network, ops, is_last):
        left = network.unused()
        shown.append(network.send(left, side) + int(network.own[op]))
        flows.append(left[1::2])
    return SetBound(min(shown), np.asarray(ops), is_last, np.array(flows))


def check_set(graph: ComputationGraph, bound: SetBound) -> None:
    """Verifies a bound by its flows. Raises BoundError, saying what is wrong with it."""
    ops = np.asarray(bound.ops)
    if ops.ndim != 1 or not ops.size or ops.dtype.kind != "i":
        raise BoundError("its set must be numbers of ops")
    if np.any(ops < 0) or np.any(ops >= graph.num_ops) or len(np.unique(ops)) < len(ops):
        raise BoundError(f"its set must be different ops, 0 to {graph.num_ops - 1}")
    network = min_cut.Network(graph)
    ends, flows = list(_ends(network, ops, bool(bound.is_last))), np.asarray(bound.flows)
    if flows.ndim != 2 or len(flows) != len(ends):
        raise BoundError(f"its flows must be {len(ends)}, one for each op that may be the one")
    shown = [
        min_cut.shown_by(network, op, side, flow)
        for (op, side), flow in zip(ends, flows, strict=True)
    ]
    if bound.num_bytes > min(shown):
        raise BoundError(f"{bound.num_bytes} bytes claimed, its flows show {min(shown)}")


def alike(graph: ComputationGraph) -> Iterator[np.ndarray]:
    """Sets of ops at one level, from the start or from the end, or that look alike."""
    classes = [precedence.levels(graph), precedence.levels_to_sinks(graph), *_looks(graph)]
    seen = set()
    for column in classes:
        ops = np.argsort(column, kind="stable")
        for some in np.split(ops, np.flatnonzero(np.diff(column[ops])) + 1):
            if 1 < len(some) <= LARGEST and (key := some.tobytes()) not in seen:
                seen.add(key)
                yield some


def _looks(graph: ComputationGraph) -> Iterator[np.ndarray]:
    """int[O], what an op looks like: its bytes, then those of its surroundings as well."""
    own = graph.outputs.sums(graph.size) + graph.workspace
    look = _numbered(own, graph.inputs.sums(graph.size))
    before, after = graph.op_pairs.T
    for _ in range(LOOKS):
        yield look
        mixed = (look.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        sums = np.zeros((2, graph.num_ops), np.uint64)
        np.add.at(sums[0], after, mixed[before])
        np.add.at(sums[1], before, mixed[after])
        look = _numbered(look.astype(np.uint64), *sums)
    yield look


def _numbered(*columns: np.ndarray) -> np.ndarray:
    """int64[O]: the same number for ops with the same values in all columns."""
    return np.unique(np.stack(columns), axis=1, return_inverse=True)[1].reshape(-1)


def _shown(
    network: min_cut.Network, ops: np.ndarray, is_last: bool, above: int, stops: Callable[[], bool]
) -> tuple[int, int]:
    """(bytes of a set's bound, flows); ``above`` if they are no more, or that isn't found out."""
    least, flows = np.iinfo(np.int64).max, 0
    for op, side in _ends(network, ops, is_last):
        if least <= above or stops():
            return above, flows
        least = min(least, network.send(network.unused(), side) + int(network.own[op]))
        flows += 1
    return least, flows


def _ends(
    network: min_cut.Network, ops: np.ndarray, is_last: bool
) -> Iterator[tuple[int, np.ndarray]]:
    """(op, its sides) for each op of a set that may run first of it, or last."""
    beyond = network.before(ops) if is_last else network.after(ops)
    others = beyond.copy()
    others[ops] = True
    for op in ops[~beyond[ops]].tolist():
        side = network.sides(op)
        side[: len(others)][others] = max_flow.SOURCE if is_last else max_flow.SINK
        side[op] = max_flow.SINK
        yield op, side

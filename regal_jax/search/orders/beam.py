"""Beam search with state-collapsing over orders whose ops are chosen in view of those before
(neural_topological_ordering, section 4.2, for decoders like that of appendix B).

The beam is that of ``dynamic_programming.beam_search`` with priorities, but for where probabilities
come from: a function says at every step how likely the next ops are. Such a decoder sees more of an
order than its set of ops, and may go on otherwise from the order that was collapsed. The peaks that
are still within reach are the same, and by them the paper collapses.

Sets are compared as they are and bytes are int64, so all is exact but the probabilities. To compare
N states of O ops takes O(N^2 O) a step: this is for beams of some hundred states.
"""

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.native.compilation import jit_with_arrays
from regal_jax.search.orders.dynamic_programming import BeamResult
from regal_jax.search.orders.states import OrderSpace, order_space

Logits = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""(ready bool[N, O], last int32[N], first int32[N]) -> float[N, O]: of the next op after N partial
orders, from the ops that can run next, the order's last op and its first one (-1 if there are
none). Finite where ready; only these count."""


class _Level(NamedTuple):
    """N partial orders of equally many ops, of different sets, best first. K shared tensors.

    Attributes:
      order: int32[N, O], ops; -1 from the next step on.
      waiting: int32[N, O], how many ops an op still waits for; -1 once it has run.
      left: int32[N, K], how many ops have still to read a shared tensor.
      use, peak: int64[N], bytes.
      cost: float64[N], minus the logarithm of the order's probability.
    """

    order: np.ndarray
    waiting: np.ndarray
    left: np.ndarray
    use: np.ndarray
    peak: np.ndarray
    cost: np.ndarray


def beam_search(
    graph: ComputationGraph, logits: Logits, *, width: int, deadline: float = math.inf
) -> BeamResult:
    """Step by step, the ``width`` most probable sets of one more op.

    Equal sets collapse before the best are chosen, to the order of lower peak even where it is the
    less probable one; ties are broken by the higher probability, then by the parent's rank, then by
    the lower op. The result is optimal if no set was dropped.

    Args:
      width: OptionError if it is below 1.
      deadline: when ``time.perf_counter()`` gets there, the width is 1 from then on.
    """
    if width < 1:
        raise OptionError(f"width must be at least 1, got {width}")
    space = order_space(graph)
    level, states, is_optimal = _first_level(space), 0, True
    for step in range(graph.num_ops):
        cost, peak = _children(space, level, step, logits)
        _collapse(level, step, cost, peak)
        children = np.flatnonzero(np.isfinite(cost))
        ranked = children[np.argsort(cost.ravel()[children], kind="stable")]
        kept = ranked[: width if time.perf_counter() < deadline else 1]
        states += len(level.use)
        is_optimal &= len(kept) == len(ranked)
        level = _next_level(space, level, step, kept, cost, peak)
    return BeamResult(level.order[0], int(level.peak[0]), is_optimal, states)


def _first_level(space: OrderSpace) -> _Level:
    """The one state in which nothing has run."""
    return _Level(
        order=np.full((1, len(space.during)), -1, np.int32),
        waiting=space.waiting[None],
        left=space.readers[None],
        use=space.start,
        peak=space.start,
        cost=np.zeros(1),
    )


def _children(space: OrderSpace, level: _Level, step: int, logits: Logits):
    """[N, O]: (costs, infinite for ops that can't run next; peaks) of all states and one op more.

    The logarithms of probabilities are found here, in float64, lest different logits tie.
    """
    ready = level.waiting == 0
    last, first = level.order[:, step - 1], level.order[:, 0]  # both -1 in step 0
    values = np.where(ready, logits(ready, last, first), -np.inf).astype(np.float64)
    most = values.max(axis=1, keepdims=True)
    log_total = most + np.log(np.exp(values - most).sum(axis=1, keepdims=True))
    peak = np.maximum(level.peak[:, None], level.use[:, None] + space.during)
    return level.cost[:, None] + (log_total - values), peak


def _collapse(level: _Level, step: int, cost: np.ndarray, peak: np.ndarray) -> None:
    """Makes the cost infinite of each child that is the same set as a better one.

    Children of two states are the same set if each runs the one op that only the other has run. It
    can do so: what that op waits for, the other has run, and so have both.
    """
    done = (level.waiting < 0).astype(np.float64)  # float64 for BLAS; all numbers are whole
    common = (done * np.arange(done.shape[1])) @ done.T  # sums of the ops that two states share
    missing = np.rint(np.diagonal(common) - common).astype(np.int64)
    one, other = np.nonzero(done @ done.T == step - 1)
    own, same = (one, missing[one, other]), (other, missing[other, one])
    worse = cost[own] > cost[same]
    worse |= (cost[own] == cost[same]) & (one > other)
    worse = (peak[own] > peak[same]) | ((peak[own] == peak[same]) & worse)
    cost[own[0][worse], own[1][worse]] = np.inf


def _next_level(
    space: OrderSpace,
    level: _Level,
    step: int,
    kept: np.ndarray,
    cost: np.ndarray,
    peak: np.ndarray,
) -> _Level:
    """The states that children, as indices in [N * O], are."""
    parent, op = np.divmod(kept, cost.shape[1])
    order, waiting, left, use = (
        column[parent] for column in (level.order, level.waiting, level.left, level.use)
    )
    order[:, step] = op
    _run(space, op, waiting, left, use)
    return _Level(order, waiting, left, use, peak[parent, op], cost[parent, op])


@jit_with_arrays
def _run(space, op, waiting, left, use):
    """Runs an op in each state."""
    for state in range(len(op)):
        ran = op[state]
        use[state] += space.growth[ran]
        for at in range(space.shared_offsets[ran], space.shared_offsets[ran + 1]):
            tensor = space.shared[at]
            left[state, tensor] -= 1
            if left[state, tensor] == 0:
                use[state] -= space.size[tensor]
        waiting[state, ran] = -1
        for at in range(space.after_offsets[ran], space.after_offsets[ran + 1]):
            waiting[state, space.after[at]] -= 1

"""Orders of least peak memory on one device, from sets of ops: the dynamic programmes and the beam
search of neural_topological_ordering (section 4.2, appendix C.3), and its random orders.

A state is the set of ops that have run. The memory in use depends on the set alone, so that of two
orders of one set the one with the lower peak so far is as good in every continuation: equal sets
collapse to it. What a partial order can still lead to never has a lower peak than it has so far.
"""

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from regal_jax.errors import OptionError, ScheduleError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.native.threads import num_cores
from regal_jax.search.orders import kernel
from regal_jax.search.orders.kernel import Level, Pool, Rule, Walk
from regal_jax.search.orders.states import OrderSpace, most_in_use, order_space

_LARGEST = kernel.LARGEST


class BeamResult(NamedTuple):
    """What a search over orders found.

    Attributes:
      order: int32[O], the ops in order; None where no order below the upper bound was found.
      peak: its peak memory, bytes (without an order: the upper bound).
      is_optimal: whether it is proven that no order has a lower peak.
      states: how many states were expanded.
    """

    order: np.ndarray | None
    peak: int
    is_optimal: bool
    states: int


def beam_search(
    graph: ComputationGraph,
    *,
    width: int | None,
    priorities: np.ndarray | None = None,
    deadline: float = math.inf,
    upper_bound: int | None = None,
    floor: int = 0,
    potential: np.ndarray | None = None,
    forced_moves: bool = False,
    max_states: int = 5_000_000,
    num_threads: int | None = None,
) -> BeamResult:
    """Step by step, the ``width`` best sets of one more op.

    Without priorities, the best have the least peak so far: the approximate dynamic programme of
    appendix C.3. On ties those with less memory in use are kept, then those with the smaller hash
    (the paper says nothing of ties). Where a graph's peaks and uses together exceed 63 bits, uses
    are compared without their lowest bits.

    With priorities, the best have the highest probability by eq. 8: beam search with
    state-collapsing, section 4.2. Equal sets collapse before the best are chosen, to the order of
    lower peak even where it is the less probable one; ties are broken by the higher probability,
    then by the parent's rank, then by the lower op.

    The result is optimal if no set was dropped, or none whose peak was below the result's. It does
    not depend on the number of threads. Memory: 6 bytes for every state kept on the way (8 above
    65,536 ops), and in the current step about 50 a state for each 64 ops and 500 more: with 500 ops
    and 100,000 states 0.4 GB, with 2,000 ops 1.4 GB.

    Args:
      width: the number of sets kept in each step; None for all of them, the exact dynamic
        programme. That a graph has few enough ops for it shows in trying.
      priorities: float[O], finite.
      deadline: when ``time.perf_counter()`` gets there, the best state is completed greedily: by
        priority, or by least peak, then least use (then the lowest op).
      upper_bound: bytes; orders with such a peak or a higher one are not looked for, which saves
        the most where ``width`` is None. Only a result completed at the deadline may be above.
      floor: bytes; without priorities, lower peaks than this are as good as it. With a peak that is
        known to be reachable as the floor and the upper bound, the memory in use alone decides
        which sets are kept (ours; see ``improve``).
      potential: float[O], bytes, rounded; without priorities, the sum over a set's ops counts as if
        it were in use, where sets are compared (ours). Depends on the set alone, so that sets
        still collapse.
      forced_moves: run an op at once that raises neither the peak nor the memory in use. No
        continuation is then better with any other op, so an exact search stays exact (and always
        does so, without priorities). The papers' searches don't.
      max_states: without a width, how many states may be kept on the way.
      num_threads: all cores by default.

    Raises:
      OptionError: for a width below 1, priorities that are not a finite number for each op, or too
        many states.
    """
    if width is not None and width < 1:
        raise OptionError(f"width must be at least 1, or None for an exact search, got {width}")
    space = order_space(graph)
    rule = _rule(
        space, priorities, upper_bound, floor, potential, forced=forced_moves or width is None
    )
    threads = num_threads or num_cores()
    with ThreadPoolExecutor(threads, thread_name_prefix="regal_jax") as executor:
        search = _Search(space, rule, width, max_states, deadline, threads, executor)
        return _search(search)


def improve(
    graph: ComputationGraph,
    order: np.ndarray,
    *,
    width: int,
    potentials: Sequence[np.ndarray | None],
    deadline: float = math.inf,
) -> BeamResult:
    """Searches for orders of lower peak than a known one, again and again (ours).

    Each ``beam_search`` keeps only sets whose peak is below the best known, and of these the ones
    with the least memory in use, plus a potential; the given potentials take turns. It ends when
    all of them, one after the other, have found nothing. The result is never above the known peak,
    and is not proven optimal.

    Args:
      order: int[O], to begin from. Raises ScheduleError if it is none of the graph.
      potentials: of the searches; None for memory in use alone.
      width, deadline: of each search, and of them all.
    """
    peak, best, states = order_peak(graph, order), np.asarray(order, np.int32), 0
    turn = failures = 0
    while failures < len(potentials) and time.perf_counter() < deadline:
        found = beam_search(
            graph,
            width=width,
            floor=peak,
            upper_bound=peak,
            potential=potentials[turn % len(potentials)],
            deadline=deadline,
        )
        states += found.states
        failures += 1
        if found.order is not None and found.peak < peak:
            peak, best, failures = found.peak, found.order, 0
        turn += 1
    return BeamResult(best, peak, False, states)


def depth_first_dp(
    graph: ComputationGraph, *, seed: int = 0, deadline: float, max_states: int = 2_000_000
) -> BeamResult:
    """Depth first with backtracking, in random order: depth-first dynamic programming (C.3).

    A branch is cut where its set of ops was reached before with a peak no higher, or where its peak
    is not below that of the best order so far. The result is optimal if all branches were explored.

    Args:
      seed: of the order in which the ops that can run next are tried.
      deadline: when ``time.perf_counter()`` gets there, the search ends; not before there is an
        order, however.
      max_states: how many sets are remembered, 20 bytes each and 8 for every 64 ops. Once there are
        so many, new sets are not remembered (the old ones still are), so that some are explored
        again.
    """
    if max_states < 1:
        raise OptionError(f"max_states must be at least 1, got {max_states}")
    space = order_space(graph)
    if graph.num_ops == 0:
        return BeamResult(np.empty(0, np.int32), int(space.start[0]), True, 0)
    walk = _new_walk(space, seed, max_states)
    kernel.start_walk(space, walk)
    kernel.walk_on(space, walk, 0)
    while walk.depth[0] >= 0 and time.perf_counter() < deadline:
        kernel.walk_on(space, walk, _SLICE)
    exhausted = bool(walk.depth[0] < 0)
    return BeamResult(walk.best_order, int(walk.best[0]), exhausted, int(walk.states[0]))


def best_of_random(graph: ComputationGraph, *, seed: int = 0, orders: int = 100) -> BeamResult:
    """The best of so many random orders; each step runs any op that can run next, with equal
    probability (the random order of the paper's section 5)."""
    if orders < 1:
        raise OptionError(f"orders must be at least 1, got {orders}")
    space, num_ops = order_space(graph), graph.num_ops
    best = np.empty(num_ops, np.int32)
    waiting, ready, order = (np.empty(num_ops, np.int32) for _ in range(3))
    left = np.empty(len(space.size), np.int32)
    random = np.array([seed], np.uint64)
    peak = kernel.random_orders(space, orders, random, waiting, left, ready, order, best)
    return BeamResult(best, int(peak), num_ops == 0, orders * num_ops)


def order_peak(graph: ComputationGraph, order: np.ndarray) -> int:
    """Peak memory of an order on one device, bytes, exactly.

    Raises ScheduleError for what is not a topological order of all ops.
    """
    space, ops = order_space(graph), np.asarray(order)
    scratch = np.empty(graph.num_ops, np.int32), np.empty(len(space.size), np.int32)
    peak = -1
    if ops.shape == (graph.num_ops,):
        peak = int(kernel.peak_of(space, ops.astype(np.int64), *scratch))
    if peak < 0:
        raise ScheduleError("order: is not a topological order of the graph's ops")
    return peak


_SLICE = 100_000
"""Choices of a depth-first search between two looks at the clock: about 10 ms."""
_CHUNK = (2**12, 2**20)
"""Children that are collapsed at a time: twice the width, within these limits. By peak, one chunk
says which of the following children can be left out. By probability none can: even an improbable
one may be the order of lowest peak of a set that a more probable order put among the best."""
_WORTH_THREADS = 20_000
"""Children or states below which starting threads costs more than it saves."""


class _Search(NamedTuple):
    """A beam search's graph, rule and resources."""

    space: OrderSpace
    rule: Rule
    width: int | None
    max_states: int
    deadline: float
    threads: int
    executor: ThreadPoolExecutor


class _Children(NamedTuple):
    """The best children of a level, and the lowest peak that the others may have."""

    rows: np.ndarray  # int64[N, COLUMNS]
    ranked: np.ndarray  # int64[N], rows from the best to the worst
    lowest_dropped: int
    pool: Pool  # for the next level, since new memory costs time


def _search(search: _Search) -> BeamResult:
    level = _first_level(search.space)
    trace: list[Any] = []
    states, kept, lowest_dropped = 0, 0, _LARGEST
    pool = _empty_pool(16, len(search.space.sources))
    for _ in range(len(search.space.during)):
        children = _best_children(search, level, pool)
        if children is None:
            return _completed(search, level, trace, states)
        pool = children.pool
        states += len(level.hash)
        kept += len(children.rows)
        lowest_dropped = min(lowest_dropped, children.lowest_dropped)
        if not len(children.rows):
            bound = search.rule.upper_bound
            return BeamResult(None, bound, lowest_dropped >= bound, states)
        if search.width is None and kept > search.max_states:
            raise _too_many(search)
        level, *origin = _next_level(search, level, children)
        trace.append(origin)
    peak = int(level.peak[0])
    return BeamResult(_order(trace), peak, lowest_dropped >= peak, states)


def _rule(
    space: OrderSpace, priorities, upper_bound, floor: int, potential, *, forced: bool
) -> Rule:
    num_ops = len(space.during)
    scored = priorities is not None
    values = _finite("priorities", priorities, num_ops)
    whole = np.rint(_finite("potential", potential, num_ops))
    peak, use = most_in_use(space)
    offset = int(-np.minimum(whole, 0).sum())
    use_bits = (use + offset + int(np.maximum(whole, 0).sum())).bit_length()
    kept_bits = min(use_bits, max(63 - peak.bit_length(), 0))
    return Rule(
        scored=scored,
        forced=forced and not scored,
        use_bits=kept_bits,
        use_shift=use_bits - kept_bits,
        upper_bound=_LARGEST if upper_bound is None else int(upper_bound),
        floor=int(floor),
        offset=offset,
        potential=np.ascontiguousarray(whole),
        priorities=np.ascontiguousarray(values),
    )


def _finite(name: str, values: np.ndarray | None, num_ops: int) -> np.ndarray:
    """float64[O], zeros for None. Raises OptionError naming what isn't that."""
    found = np.zeros(num_ops) if values is None else np.asarray(values, np.float64)
    if found.shape != (num_ops,) or not np.all(np.isfinite(found)):
        raise OptionError(f"{name} must be {num_ops} finite numbers, one for each op")
    return found


def _first_level(space: OrderSpace) -> Level:
    """The one state in which nothing has run."""
    level = _empty_level(1, len(space.sources))
    level.done[:], level.ready[:] = 0, space.sources
    level.use[:] = level.peak[:] = space.start
    level.hash[:], level.cost[:] = 0, 0.0
    level.choices[:] = np.count_nonzero(space.waiting == 0)
    return level


def _empty_level(count: int, words: int) -> Level:
    bitsets = (np.empty((count, words), np.int64) for _ in range(2))
    columns = (np.empty(count, np.int64) for _ in range(4))
    return Level(*bitsets, *columns, np.empty(count, np.float64))


def _best_children(search: _Search, level: Level, pool: Pool) -> _Children | None:
    """The best distinct children of all states, or None if the deadline comes first."""
    limit, lowest_dropped = np.full(2, _LARGEST), _LARGEST
    width = search.width
    pool.table.fill(-1)
    pool.length.fill(0)
    bounds = np.concatenate([[0], np.cumsum(level.choices)])
    size = _CHUNK[1] if width is None else min(max(2 * width, _CHUNK[0]), _CHUNK[1])
    first = seen = 0
    while first < len(level.hash):
        if time.perf_counter() >= search.deadline:
            return None
        last = _behind(bounds, first, size)
        pool = _collapse_chunk(search, level, limit, bounds, (first, last), pool)
        first, count = last, int(pool.length.sum())
        if width is None and count > search.max_states:
            raise _too_many(search)
        is_last = first == len(level.hash)
        if width is not None and count > width:
            useful = count > seen + width // 4 and not search.rule.scored
            if is_last or useful:
                limit, seen = _limit(search, pool, count), count
            lowest_dropped = 0 if search.rule.scored else int(limit[0]) >> search.rule.use_bits
            lowest_dropped = 0 if lowest_dropped <= search.rule.floor else lowest_dropped
    rows = np.empty((min(int(pool.length.sum()), width or _LARGEST), kernel.COLUMNS), np.int64)
    count = kernel.gather(pool, limit, _tie_column(search), rows)
    rows = rows[:count]
    ranked = np.lexsort((rows[:, _tie_column(search)], rows[:, kernel.KEY]))
    return _Children(rows, ranked, lowest_dropped, pool)


def _behind(bounds: np.ndarray, first: int, size: int) -> int:
    """The state behind the last one, if about ``size`` children from ``first`` on are wanted."""
    last = int(np.searchsorted(bounds, bounds[first] + size, side="right")) - 1
    return min(max(last, first + 1), len(bounds) - 1)


def _collapse_chunk(search: _Search, level, limit, bounds, chunk, pool: Pool) -> Pool:
    """The pool with the children of the states ``chunk[0]``..``chunk[1] - 1``, if up to the
    limit."""
    total = int(bounds[chunk[1]] - bounds[chunk[0]])
    threads = search.threads if total > _WORTH_THREADS else 1
    shares = bounds[chunk[0]] + total * np.arange(1, threads) // threads
    split = [chunk[0], *np.clip(np.searchsorted(bounds, shares), *chunk).tolist(), chunk[1]]
    rows = np.empty((total, kernel.COLUMNS), np.int64)
    counts = np.empty((threads, kernel.PARTS), np.int64)
    begins = bounds[split[:-1]] - bounds[chunk[0]]
    ends = np.empty(threads, np.int64)

    def expand(i: int) -> None:
        states = split[i], split[i + 1]
        ends[i] = kernel.expand(
            search.space, level, search.rule, limit, *states, rows, int(begins[i])
        )
        kernel.count_parts(rows, int(begins[i]), int(ends[i]), counts[i])

    _each(search, expand, threads)
    running = np.concatenate([[0], np.cumsum(counts.T)])
    starts = np.ascontiguousarray(running[:-1].reshape(kernel.PARTS, threads).T)
    order = np.empty(int(running[-1]), np.int32)
    parts = running[::threads].copy()
    _each(
        search,
        lambda i: kernel.scatter(rows, int(begins[i]), int(ends[i]), starts[i], order),
        threads,
    )
    pool = _with_room(pool, int((pool.length + counts.sum(axis=0)).max()))
    edges = kernel.PARTS * np.arange(threads + 1) // threads

    def collapse(i: int) -> None:
        kernel.collapse(level, rows, order, parts, pool, int(edges[i]), int(edges[i + 1]))

    _each(search, collapse, threads)
    return pool


def _empty_pool(capacity: int, words: int) -> Pool:
    """A pool with room for ``capacity`` rows, a power of 2, in each part."""
    sets = np.empty((kernel.PARTS, capacity, words), np.int64)
    rows = np.empty((kernel.PARTS, capacity, kernel.COLUMNS), np.int64)
    table = np.full((kernel.PARTS, 2 * capacity), -1, np.int32)
    return Pool(rows, sets, np.zeros(kernel.PARTS, np.int64), table)


def _with_room(pool: Pool, needed: int) -> Pool:
    """A pool with the same rows and room for so many in each part."""
    if needed <= pool.rows.shape[1]:
        return pool
    larger = _empty_pool(2 ** needed.bit_length(), pool.sets.shape[2])
    kernel.refill(larger, pool)
    return larger


def _limit(search: _Search, pool: Pool, count: int) -> np.ndarray:
    """int64[2], the (key, tie) of the child that is the last of the best."""
    assert search.width is not None
    keys, ties = np.empty(count, np.int64), np.empty(count, np.int64)
    kernel.column_of(pool, kernel.KEY, keys)
    key = np.partition(keys, search.width - 1)[search.width - 1]
    kernel.column_of(pool, _tie_column(search), ties)
    left = search.width - np.count_nonzero(keys < key)
    return np.array([key, np.partition(ties[keys == key], left - 1)[left - 1]], np.int64)


def _tie_column(search: _Search) -> int:
    return kernel.FROM if search.rule.scored else kernel.HASH


def _next_level(search: _Search, level: Level, children: _Children):
    """(the level of the children, their parents int32[N], their ops)."""
    count, num_ops = len(children.ranked), len(search.space.during)
    following = _empty_level(count, level.done.shape[1])
    parents = np.empty(count, np.int32)
    ops = np.empty(count, np.uint16 if num_ops <= 2**16 else np.int32)
    threads = search.threads if count > _WORTH_THREADS else 1
    edges = (count * np.arange(threads + 1) // threads).tolist()

    def build(i: int) -> None:
        part = edges[i], edges[i + 1]
        rows, ranked = children.rows, children.ranked
        kernel.build(search.space, level, search.rule, rows, ranked, *part, following, parents, ops)

    _each(search, build, threads)
    return following, parents, ops


def _each(search: _Search, run: Callable[[int], None], count: int) -> None:
    """Runs the parts of a phase, in threads if there are several."""
    if count == 1:
        run(0)
    else:
        list(search.executor.map(run, range(count)))


def _completed(search: _Search, level: Level, trace: list[Any], states: int) -> BeamResult:
    """The best order so far, completed greedily."""
    rest = np.empty(len(search.space.during) - len(trace), np.int32)
    peak = kernel.finish(search.space, level, search.rule, rest)
    return BeamResult(np.concatenate([_order(trace), rest]), int(peak), False, states)


def _order(trace: list[Any]) -> np.ndarray:
    """int32: the ops on the way to state 0 of the last level."""
    order, state = np.empty(len(trace), np.int32), 0
    for step in range(len(trace) - 1, -1, -1):
        parents, ops = trace[step]
        order[step], state = ops[state], parents[state]
    return order


def _too_many(search: _Search) -> OptionError:
    return OptionError(
        f"max_states: an exact search needs more than {search.max_states} states; give a width"
    )


def _new_walk(space: OrderSpace, seed: int, max_states: int) -> Walk:
    """Large arrays are not touched here, so they take memory only as far as they are used."""
    num_ops, words = len(space.during), len(space.sources)
    depths = [np.zeros(num_ops + 1, np.int64) for _ in range(3)]
    spans = [np.zeros(num_ops + 1, np.int64) for _ in range(3)]
    return Walk(
        np.zeros(1, np.int64),
        np.empty(num_ops, np.int32),
        np.empty(num_ops, np.int32),
        np.empty(len(space.size), np.int32),
        np.zeros((1, words), np.int64),
        *depths,
        np.empty(num_ops * (num_ops + 1) // 2, np.int32),
        *spans,
        np.zeros(2 ** (2 * max_states - 1).bit_length(), np.int32),
        np.zeros(1, np.int64),
        np.empty((max_states, words), np.int64),
        np.empty(max_states, np.int64),
        np.empty(max_states, np.int64),
        np.full(1, _LARGEST, np.int64),
        np.empty(num_ops, np.int32),
        np.zeros(1, np.int64),
        np.array([seed], np.uint64),
    )

"""The compiled loop of ordering one device's ops choice by choice: of those that are ready, which
one is next.

An op that raises neither the peak nor the memory in use runs at once: no continuation is better
with another op first. Of other ready ops a network reads what each choice looks like, a row of
FEATURES numbers.
"""

from typing import NamedTuple

import numpy as np

from regal_jax.environments.choosing.kernel import MOST, Sight, draw, new_sight
from regal_jax.native.compilation import inlined, jit

NAMES = (
    "growth",  # bytes more in use after the op
    "during",  # of its outputs and workspace
    "raises",  # that the peak rises by
    "room",  # from the use after it to the peak
    "made",  # of its outputs that stay
    "frees",  # of inputs that it is the last to read
    "shares",  # of other inputs, each over its readers left
    "pairs",  # of inputs that one other op is left to read
    "ready_pairs",  # of those whose other reader is ready
    "growth_over",  # its growth, above the least of the ready
    "during_over",  # what it needs, above the least of the ready
    "smaller",  # part of the ready with less growth
    "readers",  # logarithm of 1 + ops that read from it
    "unlocks",  # of 1 + ops that wait for it alone
    "started",  # part of its readers that have other inputs already
    "missing",  # of 1 + ops that the reader nearest to being ready waits for besides
    "missing_ready",  # of 1 + those of them that are ready
    "next_growth",  # least growth of the ops that wait for it alone
    "next_during",  # what that one needs
    "net_growth",  # growth of both, or the op's own if that is less
    "age",  # of 1 + steps since it became ready
    "oldest",  # of 1 + steps since the first of its inputs was made
    "behind",  # ops on the longest path behind it, above the mean of the ready, over 10
    "before",  # ops on the longest path before it, above the mean of the ready, over 10
    "place",  # of it, between its longest paths
    "reach",  # levels to the last of its readers, over 10
    "program",  # of 1 + places behind the first of the ready, in this order of the graph
    "depth_first",  # the same in this one
    "lpmf",
    "post_order",
    "after_last",  # whether it reads from the op that ran last
    "beside_last",  # whether it has a reader in common with that one
    "done",  # part of the ops that have run
    "choices",  # logarithm of the ready
    "use",  # bytes in use, over the floor of the peak
    "peak",  # so far, over it
)
"""What is known of a choice; bytes in parts of the mean of an op's outputs, by asinh."""

FEATURES = len(NAMES)
(
    GROWTH,
    DURING,
    RAISES,
    ROOM,
    MADE,
    FREES,
    SHARES,
    PAIRS,
    READY_PAIRS,
    GROWTH_OVER,
    DURING_OVER,
    SMALLER,
    READERS,
    UNLOCKS,
    STARTED,
    MISSING,
    MISSING_READY,
    NEXT_GROWTH,
    NEXT_DURING,
    NET_GROWTH,
    AGE,
    OLDEST,
    BEHIND,
    BEFORE,
    PLACE,
    REACH,
    PROGRAM,
    DEPTH_FIRST,
    LPMF,
    POST_ORDER,
    AFTER_LAST,
    BESIDE_LAST,
    DONE,
    CHOICES,
    USE,
    PEAK,
) = range(FEATURES)


class Columns(NamedTuple):
    """O ops of one device; K tensors that several ops read, freed after the last. Rows are in CSR
    form.

    Attributes:
      during: int64[O], bytes of an op's outputs and workspace, in use on top while it runs.
      growth: int64[O], bytes more in use after an op, before it frees shared tensors.
      made: int64[O], bytes of its outputs that stay.
      shared_offsets, shared: the shared tensors an op reads.
      size: int64[K], bytes. readers: int32[K], how many ops read one. reader_sum: int64[K], the sum
        of their numbers, so that the last of them is known.
      after_offsets, after: ops that read from an op. before_offsets, before: those it reads from.
      levels, levels_behind: float64[O], ops on the longest paths before and behind it. reach:
        float64[O], levels to the last op that reads from it.
      places: int32[4, O], in four orders that simple rules give the graph.
      start: bytes in use before the first op. floor: bytes below which no order's peak is.
      unit: bytes that features count in.
    """

    during: np.ndarray
    growth: np.ndarray
    made: np.ndarray
    shared_offsets: np.ndarray
    shared: np.ndarray
    size: np.ndarray
    readers: np.ndarray
    reader_sum: np.ndarray
    after_offsets: np.ndarray
    after: np.ndarray
    before_offsets: np.ndarray
    before: np.ndarray
    levels: np.ndarray
    levels_behind: np.ndarray
    reach: np.ndarray
    places: np.ndarray
    start: int
    floor: int
    unit: float


class State(NamedTuple):
    """What has run, and memory for looking at what is next."""

    growth: np.ndarray  # int64[O], bytes more in use after an op, as it is now
    waiting: np.ndarray  # int32[O], ops that an op waits for, -1 when it has run
    left: np.ndarray  # int32[K], readers left of a shared tensor
    reader_sum: np.ndarray  # int64[K], of those
    since: np.ndarray  # int32[O], the step after which it was ready
    oldest: np.ndarray  # int32[O], the step that made the first of its inputs
    ready: np.ndarray  # int32[O]
    few: np.ndarray  # int32[MOST], those of the ready that are looked at
    mark: np.ndarray  # int32[O], the last step before which an op read from the op that ran last
    sight: Sight


def new_state(columns: Columns, size: int) -> State:
    """Memory of one thread, for networks of a size."""
    num_ops, num_shared = len(columns.during), len(columns.size)
    return State(
        growth=np.empty(num_ops, np.int64),
        waiting=np.empty(num_ops, np.int32),
        left=np.empty(num_shared, np.int32),
        reader_sum=np.empty(num_shared, np.int64),
        since=np.empty(num_ops, np.int32),
        oldest=np.empty(num_ops, np.int32),
        ready=np.empty(num_ops, np.int32),
        few=np.empty(MOST, np.int32),
        mark=np.empty(num_ops, np.int32),
        sight=new_sight(FEATURES, size),
    )


@jit
def draw_all(columns, state, network, seeds, temperature, orders, peaks):
    """Fills orders int32[B, O] and peaks float64[B] by drawing: a choice's logit, and Gumbel noise
    over it times a temperature, 0 for none."""
    for row in range(len(seeds)):
        state.sight.random[0] = seeds[row]
        ready, last = _reset(columns, state), -1
        use = peak = columns.start
        for step in range(len(columns.during)):
            known = max(peak, columns.floor)
            op = _forced(columns, state, ready, use, known)
            if op < 0:
                count = _candidates(state, ready)
                chosen = 0
                if count > 1:
                    _look(columns, state, count, ready, use, known, last, step)
                    chosen = draw(state.sight, network, count, temperature)
                op = state.few[chosen]
            orders[row, step] = last = op
            peak = max(peak, use + columns.during[op])
            use += state.growth[op]
            ready = _run(columns, state, op, step, ready)
        peaks[row] = peak


@jit
def follow(columns, state, rank, rows, counts, chosen):
    """Fills rows float32[O, MOST, FEATURES] of each choice's ops, counts int32[O] of them (1 where
    nothing is chosen), chosen int32[O], which of them is next: the one of lowest rank int32[O]."""
    ready, last = _reset(columns, state), -1
    use = peak = columns.start
    for step in range(len(rank)):
        known = max(peak, columns.floor)
        op = _forced(columns, state, ready, use, known)
        counts[step], chosen[step] = 1, 0
        if op < 0:
            count, at = _candidates(state, ready), 0
            for other in range(1, count):
                if rank[state.few[other]] < rank[state.few[at]]:
                    at = other
            if count > 1:
                _look(columns, state, count, ready, use, known, last, step)
                for other in range(count):
                    for feature in range(FEATURES):
                        rows[step, other, feature] = state.sight.rows[other, feature]
            counts[step], chosen[step] = count, at
            op = state.few[at]
        last = op
        peak = max(peak, use + columns.during[op])
        use += state.growth[op]
        ready = _run(columns, state, op, step, ready)


@inlined
def _reset(columns, state):
    """How many ops are ready at first."""
    ready = 0
    for tensor in range(len(state.left)):
        state.left[tensor] = columns.readers[tensor]
        state.reader_sum[tensor] = columns.reader_sum[tensor]
    for op in range(len(state.growth)):
        state.growth[op] = columns.growth[op]
        state.since[op], state.oldest[op], state.mark[op] = 0, -1, -1
        state.waiting[op] = columns.before_offsets[op + 1] - columns.before_offsets[op]
        if state.waiting[op] == 0:
            state.ready[ready] = op
            ready += 1
    return ready


@inlined
def _forced(columns, state, ready, use, peak):
    """A ready op that costs nothing, of these one that frees most, the lowest on ties; or -1."""
    best, least = -1, 0
    for at in range(ready):
        op = state.ready[at]
        growth = state.growth[op]
        free = growth <= least and use + columns.during[op] <= peak
        if free and (growth < least or best < 0 or op < best):
            best, least = op, growth
    return best


@inlined
def _candidates(state, ready):
    """Fills the ready ops that are looked at; returns their number."""
    if ready <= MOST:
        for at in range(ready):
            state.few[at] = state.ready[at]
        return ready
    count = 0
    for at in range(ready):
        growth = state.growth[state.ready[at]]
        if count == MOST and growth >= state.growth[state.few[MOST - 1]]:
            continue
        to = min(count, MOST - 1)
        while to > 0 and state.growth[state.few[to - 1]] > growth:
            state.few[to] = state.few[to - 1]
            to -= 1
        state.few[to] = state.ready[at]
        count = min(count + 1, MOST)
    return count


@inlined
def _look(columns, state, count, ready, use, peak, last, step):
    """Fills the rows of the ops that are looked at."""
    if last >= 0:
        for at in range(columns.after_offsets[last], columns.after_offsets[last + 1]):
            state.mark[columns.after[at]] = step
    least_growth, least_during, behind, before = _of_all(columns, state, count)
    for at in range(count):
        op, row = state.few[at], state.sight.rows[at]
        growth, smaller = state.growth[op], 0
        for other in range(count):
            smaller += state.growth[state.few[other]] < growth
        row[SMALLER], row[CHOICES] = smaller / count, np.log(np.float64(ready))
        row[GROWTH_OVER] = _bytes(columns, growth - least_growth)
        row[DURING_OVER] = _bytes(columns, columns.during[op] - least_during)
        row[DONE] = step / len(columns.during)
        row[USE], row[PEAK] = use / columns.floor, peak / columns.floor
        row[BEHIND] = (columns.levels_behind[op] - behind) / 10.0
        row[BEFORE] = (columns.levels[op] - before) / 10.0
        row[AFTER_LAST] = state.mark[op] == step
        _look_at_bytes(columns, state, op, use, peak, row)
        _look_at_age(columns, state, op, step, row)
        _look_at_inputs(columns, state, op, row)
        _look_behind(columns, state, op, step, row)
    _look_at_places(columns, state, count)


@inlined
def _bytes(columns, count):
    return np.arcsinh(count / columns.unit)


@inlined
def _of_all(columns, state, count):
    """(least growth, least need, mean levels behind and before) of the ops that are looked at."""
    growth, during = state.growth[state.few[0]], columns.during[state.few[0]]
    behind, before = 0.0, 0.0
    for at in range(count):
        op = state.few[at]
        growth, during = min(growth, state.growth[op]), min(during, columns.during[op])
        behind += columns.levels_behind[op]
        before += columns.levels[op]
    return growth, during, behind / count, before / count


@inlined
def _look_at_places(columns, state, count):
    """Fills how far each is behind the first of them, in each order that a rule gives the graph."""
    for order in range(len(columns.places)):
        first = columns.places[order, state.few[0]]
        for at in range(1, count):
            first = min(first, columns.places[order, state.few[at]])
        for at in range(count):
            behind = columns.places[order, state.few[at]] - first
            state.sight.rows[at, PROGRAM + order] = np.log1p(np.float64(behind))


@inlined
def _look_at_bytes(columns, state, op, use, peak, row):
    """Fills what is known of the op's own bytes."""
    growth, during, made = state.growth[op], columns.during[op], columns.made[op]
    row[GROWTH], row[DURING] = _bytes(columns, growth), _bytes(columns, during)
    row[RAISES] = _bytes(columns, max(use + during - peak, 0))
    row[ROOM] = _bytes(columns, peak - use - growth)
    row[MADE], row[FREES] = _bytes(columns, made), _bytes(columns, made - growth)


@inlined
def _look_at_age(columns, state, op, step, row):
    """Fills since when it could run, and where it is in the graph."""
    row[AGE] = np.log1p(np.float64(step - state.since[op]))
    row[OLDEST] = np.log1p(np.float64(step - max(state.oldest[op], 0)))
    levels, behind = columns.levels[op], columns.levels_behind[op]
    row[PLACE] = (levels + 1.0) / (levels + behind + 2.0)
    row[REACH] = columns.reach[op] / 10.0


@inlined
def _look_at_inputs(columns, state, op, row):
    """Fills what is known of the shared tensors that it reads and doesn't free."""
    shares, pairs, ready_pairs = 0.0, 0, 0
    for i in range(columns.shared_offsets[op], columns.shared_offsets[op + 1]):
        tensor = columns.shared[i]
        left = state.left[tensor]
        if left > 1:
            shares += columns.size[tensor] / left
        if left == 2:
            pairs += columns.size[tensor]
            if state.waiting[state.reader_sum[tensor] - op] == 0:
                ready_pairs += columns.size[tensor]
    row[SHARES], row[PAIRS] = _bytes(columns, shares), _bytes(columns, pairs)
    row[READY_PAIRS] = _bytes(columns, ready_pairs)


@inlined
def _look_behind(columns, state, op, step, row):
    """Fills what is known of the ops that read from it."""
    first, past = columns.after_offsets[op], columns.after_offsets[op + 1]
    started, beside, unlocks, next_op, missing, nearest = 0, 0, 0, -1, 0, -1
    for i in range(first, past):
        after = columns.after[i]
        waits = state.waiting[after]
        started += waits < columns.before_offsets[after + 1] - columns.before_offsets[after]
        beside = max(beside, state.mark[after] == step)
        if nearest < 0 or waits - 1 < missing:
            missing, nearest = waits - 1, after
        if waits == 1:
            unlocks += 1
            if next_op < 0 or state.growth[after] < state.growth[next_op]:
                next_op = after
    row[READERS] = np.log1p(np.float64(past - first))
    row[UNLOCKS], row[STARTED] = np.log1p(np.float64(unlocks)), started / max(past - first, 1)
    row[BESIDE_LAST] = beside
    growth, during = np.int64(0), np.int64(0)
    if next_op >= 0:
        growth, during = state.growth[next_op], columns.during[next_op]
    row[NEXT_GROWTH], row[NEXT_DURING] = _bytes(columns, growth), _bytes(columns, during)
    row[NET_GROWTH] = _bytes(columns, state.growth[op] + min(growth, 0))
    others = _ready_before(columns, state, nearest) - 1 if missing > 0 else 0
    row[MISSING], row[MISSING_READY] = np.log1p(np.float64(missing)), np.log1p(np.float64(others))


@inlined
def _ready_before(columns, state, op):
    """How many of the ops that it reads from are ready."""
    count = 0
    for at in range(columns.before_offsets[op], columns.before_offsets[op + 1]):
        count += state.waiting[columns.before[at]] == 0
    return count


@inlined
def _run(columns, state, op, step, ready):
    """Runs an op; how many are ready then."""
    state.waiting[op] = -1
    for at in range(ready):
        if state.ready[at] == op:
            state.ready[at] = state.ready[ready - 1]
            break
    ready -= 1
    for i in range(columns.shared_offsets[op], columns.shared_offsets[op + 1]):
        tensor = columns.shared[i]
        state.left[tensor] -= 1
        state.reader_sum[tensor] -= op
        if state.left[tensor] == 1:
            state.growth[state.reader_sum[tensor]] -= columns.size[tensor]
    for i in range(columns.after_offsets[op], columns.after_offsets[op + 1]):
        after = columns.after[i]
        if state.oldest[after] < 0:
            state.oldest[after] = step
        state.waiting[after] -= 1
        if state.waiting[after] == 0:
            state.ready[ready] = after
            state.since[after] = step
            ready += 1
    return ready

"""The compiled loops of the searches over orders on one device, numba (``states``).

The beam goes from the states of t ops to those of t + 1 in phases, each split over threads:

1. ``expand``: every op that a state can run makes a child, a row of five numbers. What is surely
   not among the best is left out, by a limit that falls while the children come in.
2. ``scatter``: children are sorted into parts by their hash, so that a thread can work on a part
   alone, in its cache.
3. ``collapse``: of children that are the same set, one stays. Each part has a hash table; sets
   of equal hash are compared word by word.
4. ``build``: the best children become states; bitsets are made for these alone.

Nothing depends on how the work is split.
"""

from typing import NamedTuple

import numpy as np

from regal_jax.native import bits
from regal_jax.native.compilation import inlined, jit
from regal_jax.native.random import below

HASH, KEY, PEAK, USE, FROM = range(5)
"""What is in a row: the hash of the set, what the best are chosen by (least first), its peak and
the bytes in use after it, and (state << 32 | op) that it comes from."""
COLUMNS = 5
PARTS = 256
LARGEST = 2**63 - 1


class Level(NamedTuple):
    """N states of equally many ops, best first. W words a bitset.

    Attributes:
      done, ready: int64[N, W], bitsets of the ops that have run, and of those that can run next.
      hash: int64[N], of ``done``. use, peak: int64[N], bytes. choices: int64[N], ops in ``ready``.
      cost: float64[N], minus the logarithm of the order's probability; or the potential
        of the ops that have run, if states aren't scored.
    """

    done: np.ndarray
    ready: np.ndarray
    hash: np.ndarray
    use: np.ndarray
    peak: np.ndarray
    choices: np.ndarray
    cost: np.ndarray


class Rule(NamedTuple):
    """Which children there are, and which are best.

    Attributes:
      scored: whether by probability (of ``priorities``, float64[O]), rather than by least peak,
        then least use. The peak, but at least ``floor``, is then ``key >> use_bits``, and the bits
        below are ``(use + potential of the ops that have run + offset) >> use_shift``.
      potential: float64[O], whole numbers. offset: makes what is compared non-negative.
      forced: whether an op that costs nothing is a state's only child.
      upper_bound: bytes; children with such a peak or a higher one are left out.
    """

    scored: bool
    forced: bool
    use_bits: int
    use_shift: int
    upper_bound: int
    floor: int
    offset: int
    potential: np.ndarray
    priorities: np.ndarray


class Pool(NamedTuple):
    """Distinct children, in PARTS parts by hash.

    Attributes:
      rows: int64[PARTS, capacity, COLUMNS].
      sets: int64[PARTS, capacity, W], bitsets; kept here because to make them from the states that
        the rows come from took two thirds of the time of a wide beam.
      length: int64[PARTS], rows in use.
      table: int32[PARTS, slots], open addressing: a row's index, or -1. Slots are a power of 2.
    """

    rows: np.ndarray
    sets: np.ndarray
    length: np.ndarray
    table: np.ndarray


class Walk(NamedTuple):
    """A depth-first search where it stands; L = O + 1 depths, the op sets of M states remembered.

    Attributes:
      depth: int64[1], ops that have run, or -1 when all has been seen.
      order, waiting: int32[O], the ops that have run, and how many ops each op still waits for.
      left: int32[K], how many ops have still to read a shared tensor. done: int64[1, W].
      use, peak, hash: int64[L], at each depth.
      choices: int32[O (O + 1) / 2]; depth d has ``begin[d]``..``end[d] - 1``, tried up to
        ``following[d]``.
      table: int32[slots], a remembered state's index + 1, or 0. remembered: int64[1], how many.
      sets: int64[M, W]; set_hash, set_peak: int64[M].
      best: int64[1], bytes of the best order so far, ``best_order``.
      states: int64[1], how many have been visited. random: uint64[1].
    """

    depth: np.ndarray
    order: np.ndarray
    waiting: np.ndarray
    left: np.ndarray
    done: np.ndarray
    use: np.ndarray
    peak: np.ndarray
    hash: np.ndarray
    choices: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    following: np.ndarray
    table: np.ndarray
    remembered: np.ndarray
    sets: np.ndarray
    set_hash: np.ndarray
    set_peak: np.ndarray
    best: np.ndarray
    best_order: np.ndarray
    states: np.ndarray
    random: np.ndarray


# The beam.


@jit
def expand(space, level, rule, limit, first, last, rows, at):
    """Writes the children of states ``first``..``last - 1`` to ``rows`` from ``at`` on.

    ``limit`` is int64[2], the largest (key, tie) wanted. Returns the row behind the last.
    """
    for state in range(first, last):
        begin, log_total = at, 0.0
        if rule.scored:
            log_total = _log_total(level.ready, rule.priorities, state)
        word, only = 0, False
        while word < level.ready.shape[1] and not only:
            ops = level.ready[state, word]
            while ops != 0 and not only:
                op = 64 * word + bits.lowest(ops)
                ops &= ops - 1
                peak = max(level.peak[state], level.use[state] + space.during[op])
                if peak >= rule.upper_bound:
                    continue
                known = max(peak, rule.floor)
                if not rule.scored and (known << rule.use_bits) > limit[0]:
                    continue
                use = level.use[state] + space.growth[op] - _freed(space, level.done, state, op)
                if rule.forced and peak == level.peak[state] and use <= level.use[state]:
                    at, only = begin, True
                if rule.scored:
                    step = log_total - rule.priorities[op]
                    key = bits.of_float(max(level.cost[state] + step, 0.0))
                else:
                    weighed = use + np.int64(level.cost[state] + rule.potential[op]) + rule.offset
                    key = (known << rule.use_bits) | (weighed >> rule.use_shift)
                child, origin = level.hash[state] ^ space.label[op], (state << 32) | op
                tie = origin if rule.scored else child
                if key < limit[0] or (key == limit[0] and tie <= limit[1]):
                    rows[at, HASH] = child
                    rows[at, KEY] = key
                    rows[at, PEAK] = peak
                    rows[at, USE] = use
                    rows[at, FROM] = origin
                    at += 1
            word += 1
    return at


@inlined
def _freed(space, done, state, op):
    """Bytes of shared inputs of which an op is the last reader."""
    freed = 0
    for i in range(space.shared_offsets[op], space.shared_offsets[op + 1]):
        tensor = space.shared[i]
        left = np.int64(0)
        for mask in range(space.reader_offsets[tensor], space.reader_offsets[tensor + 1]):
            word = space.reader_words[mask]
            missing = space.reader_bits[mask] & ~done[state, word]
            if word == op >> 6:
                missing &= ~bits.bit(op)
            left |= missing
            if left != 0:
                break
        if left == 0:
            freed += space.size[tensor]
    return freed


@inlined
def _log_total(ready, priorities, state):
    """log of the sum of exp(priority) over the ops that can run next."""
    most, total = -np.inf, 0.0
    for word in range(ready.shape[1]):
        ops = ready[state, word]
        while ops != 0:
            most = max(most, priorities[64 * word + bits.lowest(ops)])
            ops &= ops - 1
    for word in range(ready.shape[1]):
        ops = ready[state, word]
        while ops != 0:
            total += np.exp(priorities[64 * word + bits.lowest(ops)] - most)
            ops &= ops - 1
    return most + np.log(total)


@inlined
def _part(hash_of_set):
    return (hash_of_set >> 56) & (PARTS - 1)


@jit
def count_parts(rows, first, last, counts):
    """int64[PARTS]: how many of the rows ``first``..``last - 1`` are in each part."""
    for part in range(PARTS):
        counts[part] = 0
    for row in range(first, last):
        counts[_part(rows[row, HASH])] += 1


@jit
def scatter(rows, first, last, starts, order):
    """Puts rows ``first``..``last - 1`` to where their parts start in ``order``; moves these."""
    for row in range(first, last):
        part = _part(rows[row, HASH])
        order[starts[part]] = row
        starts[part] += 1


@jit
def collapse(level, rows, order, starts, pool, first, last):
    """Takes the rows of parts ``first``..``last - 1`` into the pool, one a set.

    The one with the lowest peak, then the least key, then the first.
    """
    for part in range(first, last):
        for i in range(starts[part], starts[part + 1]):
            row = order[i]
            entry = _find(level.done, rows, row, pool, part)
            if entry == pool.length[part]:
                pool.length[part] += 1
                _put(rows, row, pool.rows, part, entry)
            else:
                peak, kept = rows[row, PEAK], pool.rows[part, entry, PEAK]
                less = rows[row, KEY] < pool.rows[part, entry, KEY]
                if peak < kept or (peak == kept and less):
                    _put(rows, row, pool.rows, part, entry)


@inlined
def _find(done, rows, row, pool, part):
    """The entry of a row's set, a new one if it has none."""
    slots = pool.table.shape[1] - 1
    state, op = rows[row, FROM] >> 32, rows[row, FROM] & 0xFFFFFFFF
    slot = rows[row, HASH] & slots
    while pool.table[part, slot] >= 0:
        entry = np.int64(pool.table[part, slot])
        if pool.rows[part, entry, HASH] == rows[row, HASH] and _is_child(
            done, state, op, pool.sets, part, entry
        ):
            return entry
        slot = (slot + 1) & slots
    entry = pool.length[part]
    pool.table[part, slot] = entry
    for word in range(done.shape[1]):
        pool.sets[part, entry, word] = done[state, word]
    pool.sets[part, entry, op >> 6] |= bits.bit(op)
    return entry


@inlined
def _is_child(done, state, op, sets, part, entry):
    """Whether a set is that of a state and one op more."""
    difference = np.int64(0)
    for word in range(done.shape[1]):
        bit = bits.bit(op) if word == op >> 6 else np.int64(0)
        difference |= sets[part, entry, word] ^ done[state, word] ^ bit
    return difference == 0


@inlined
def _put(rows, row, target, part, entry):
    for column in range(COLUMNS):
        target[part, entry, column] = rows[row, column]


@jit
def refill(pool, old):
    """Copies the rows of a smaller pool to a larger one with an empty table."""
    slots = pool.table.shape[1] - 1
    for part in range(PARTS):
        pool.length[part] = old.length[part]
        for entry in range(old.length[part]):
            for column in range(COLUMNS):
                pool.rows[part, entry, column] = old.rows[part, entry, column]
            for word in range(old.sets.shape[2]):
                pool.sets[part, entry, word] = old.sets[part, entry, word]
            slot = old.rows[part, entry, HASH] & slots
            while pool.table[part, slot] >= 0:
                slot = (slot + 1) & slots
            pool.table[part, slot] = entry


@jit
def column_of(pool, column, values):
    """One column of all rows, part by part."""
    at = 0
    for part in range(PARTS):
        for entry in range(pool.length[part]):
            values[at] = pool.rows[part, entry, column]
            at += 1


@jit
def gather(pool, limit, tie_column, rows):
    """Copies the rows up to ``limit``, part by part, while there is room; returns how many."""
    at = 0
    for part in range(PARTS):
        for entry in range(pool.length[part]):
            key, tie = pool.rows[part, entry, KEY], pool.rows[part, entry, tie_column]
            best = key < limit[0] or (key == limit[0] and tie <= limit[1])
            if best and at < len(rows):
                for column in range(COLUMNS):
                    rows[at, column] = pool.rows[part, entry, column]
                at += 1
    return at


@jit
def build(space, level, rule, rows, ranked, first, last, following, parents, ops):
    """Makes state i of the following level of row ``ranked[i]``; and where it comes from."""
    for i in range(first, last):
        row = ranked[i]
        parent, op = rows[row, FROM] >> 32, rows[row, FROM] & 0xFFFFFFFF
        parents[i], ops[i] = parent, op
        following.hash[i] = rows[row, HASH]
        following.use[i] = rows[row, USE]
        following.peak[i] = rows[row, PEAK]
        weighed = level.cost[parent] + rule.potential[op]
        following.cost[i] = bits.as_float(rows[row, KEY]) if rule.scored else weighed
        for word in range(level.done.shape[1]):
            following.done[i, word] = level.done[parent, word]
            following.ready[i, word] = level.ready[parent, word]
        released = _run(space, following.done, following.ready, i, op)
        following.choices[i] = level.choices[parent] - 1 + released


@inlined
def _run(space, done, ready, state, op):
    """Runs an op: updates the bitsets of a state; returns how many ops can run that could not."""
    bit, released = bits.bit(op), 0
    done[state, op >> 6] |= bit
    ready[state, op >> 6] &= ~bit
    for i in range(space.after_offsets[op], space.after_offsets[op + 1]):
        other = space.after[i]
        missing = np.int64(0)
        for mask in range(space.before_offsets[other], space.before_offsets[other + 1]):
            missing |= space.before_bits[mask] & ~done[state, space.before_words[mask]]
            if missing != 0:
                break
        if missing == 0:
            ready[state, other >> 6] |= bits.bit(other)
            released += 1
    return released


@jit
def finish(space, level, rule, ops):
    """Runs the best child of state 0 until no op is left: the highest priority, or the lowest
    peak, then the least use. Ties: the lowest op. Returns the peak, bytes."""
    for count in range(len(ops)):
        best, best_peak, best_use, best_priority = -1, LARGEST, LARGEST, -np.inf
        for word in range(level.ready.shape[1]):
            left = level.ready[0, word]
            while left != 0:
                op = 64 * word + bits.lowest(left)
                left &= left - 1
                peak = max(level.peak[0], level.use[0] + space.during[op])
                use = level.use[0] + space.growth[op] - _freed(space, level.done, 0, op)
                priority = rule.priorities[op] if rule.scored else 0.0
                if rule.scored:
                    better = priority > best_priority
                else:
                    better = peak < best_peak or (peak == best_peak and use < best_use)
                if best < 0 or better:
                    best, best_peak, best_use, best_priority = op, peak, use, priority
        _run(space, level.done, level.ready, 0, best)
        level.peak[0], level.use[0] = best_peak, best_use
        ops[count] = best
    return level.peak[0]


# Orders by themselves.


@jit
def peak_of(space, order, position, left):
    """Bytes: the peak of an order, or -1 where it is not a topological order of all ops.

    ``position`` is scratch, int32[O]; ``left`` int32[K].
    """
    for op in range(len(position)):
        position[op] = -1
    for count in range(len(order)):
        if order[count] < 0 or order[count] >= len(position) or position[order[count]] >= 0:
            return np.int64(-1)
        position[order[count]] = count
    for tensor in range(len(left)):
        left[tensor] = space.readers[tensor]
    use = space.start[0]
    peak = use
    for count in range(len(order)):
        op = order[count]
        for i in range(space.after_offsets[op], space.after_offsets[op + 1]):
            if position[space.after[i]] < count:
                return np.int64(-1)
        peak = max(peak, use + space.during[op])
        use += space.growth[op] - _read(space, left, op)
    return peak


@inlined
def _read(space, left, op):
    """An op reads its shared inputs; returns the bytes of those that it is the last to read."""
    freed = 0
    for i in range(space.shared_offsets[op], space.shared_offsets[op + 1]):
        tensor = space.shared[i]
        left[tensor] -= 1
        if left[tensor] == 0:
            freed += space.size[tensor]
    return freed


@jit
def random_orders(space, count, random, waiting, left, ready, order, best_order):
    """Random orders, any op that can run next with equal probability; returns the least peak, of
    ``best_order`` (the first, on ties). The arrays before it are scratch, int32."""
    best = LARGEST
    for _ in range(count):
        peak = _random_order(space, random, waiting, left, ready, order)
        if peak < best:
            best = peak
            for i in range(len(order)):
                best_order[i] = order[i]
    return best


@inlined
def _random_order(space, random, waiting, left, ready, order):
    choices = _restart(space, waiting, left, ready)
    use = space.start[0]
    peak = use
    for count in range(len(order)):
        chosen = below(random, choices)
        op = ready[chosen]
        choices -= 1
        ready[chosen] = ready[choices]
        order[count] = op
        peak = max(peak, use + space.during[op])
        use += space.growth[op] - _read(space, left, op)
        for i in range(space.after_offsets[op], space.after_offsets[op + 1]):
            waiting[space.after[i]] -= 1
            if waiting[space.after[i]] == 0:
                ready[choices] = space.after[i]
                choices += 1
    return peak


@inlined
def _restart(space, waiting, left, ready):
    """Sets up that nothing has run; returns how many ops are in ``ready``."""
    choices = 0
    for tensor in range(len(left)):
        left[tensor] = space.readers[tensor]
    for op in range(len(waiting)):
        waiting[op] = space.waiting[op]
        if waiting[op] == 0:
            ready[choices] = op
            choices += 1
    return choices


# Depth first.


@jit
def start_walk(space, walk):
    """Sets up the root, from which nothing has run."""
    walk.depth[0] = 0
    walk.use[0] = walk.peak[0] = space.start[0]
    walk.begin[0] = walk.following[0] = 0
    walk.end[0] = _restart(space, walk.waiting, walk.left, walk.choices)
    _shuffle(walk, 0)


@jit
def walk_on(space, walk, steps):
    """Tries so many choices, and more until there is an order; stops when all has been seen."""
    while walk.depth[0] >= 0 and (steps > 0 or walk.best[0] == LARGEST):
        steps -= 1
        depth = walk.depth[0]
        if walk.following[depth] == walk.end[depth]:
            walk.depth[0] = depth - 1
            if depth > 0:
                _undo(space, walk, depth - 1)
            continue
        op = np.int64(walk.choices[walk.following[depth]])
        walk.following[depth] += 1
        peak = max(walk.peak[depth], walk.use[depth] + space.during[op])
        if peak >= walk.best[0]:
            continue
        walk.hash[depth + 1] = walk.hash[depth] ^ space.label[op]
        walk.done[0, op >> 6] ^= bits.bit(op)
        if _is_old(walk, depth + 1, peak):
            walk.done[0, op >> 6] ^= bits.bit(op)
            continue
        walk.peak[depth + 1] = peak
        _descend(space, walk, depth, op)


@inlined
def _descend(space, walk, depth, op):
    """Runs an op that has been put into the set."""
    walk.states[0] += 1
    walk.order[depth] = op
    walk.use[depth + 1] = walk.use[depth] + space.growth[op] - _read(space, walk.left, op)
    at = walk.end[depth]
    walk.begin[depth + 1] = walk.following[depth + 1] = at
    for i in range(walk.begin[depth], walk.end[depth]):
        if walk.choices[i] != op:
            walk.choices[at] = walk.choices[i]
            at += 1
    for i in range(space.after_offsets[op], space.after_offsets[op + 1]):
        walk.waiting[space.after[i]] -= 1
        if walk.waiting[space.after[i]] == 0:
            walk.choices[at] = space.after[i]
            at += 1
    walk.end[depth + 1] = at
    _shuffle(walk, depth + 1)
    walk.depth[0] = depth + 1
    if depth + 1 == len(walk.order):
        walk.best[0] = walk.peak[depth + 1]
        for i in range(len(walk.order)):
            walk.best_order[i] = walk.order[i]


@inlined
def _undo(space, walk, depth):
    """Takes back the op that ran at a depth."""
    op = np.int64(walk.order[depth])
    walk.done[0, op >> 6] ^= bits.bit(op)
    for i in range(space.shared_offsets[op], space.shared_offsets[op + 1]):
        walk.left[space.shared[i]] += 1
    for i in range(space.after_offsets[op], space.after_offsets[op + 1]):
        walk.waiting[space.after[i]] += 1


@inlined
def _shuffle(walk, depth):
    begin = walk.begin[depth]
    for i in range(walk.end[depth] - 1, begin, -1):
        other = begin + below(walk.random, i - begin + 1)
        walk.choices[i], walk.choices[other] = walk.choices[other], walk.choices[i]


@inlined
def _is_old(walk, depth, peak):
    """Whether the set was reached with a peak no higher; if not, remembers it while there is
    room."""
    slots = len(walk.table) - 1
    slot = walk.hash[depth] & slots
    while walk.table[slot] > 0:
        entry = walk.table[slot] - 1
        if walk.set_hash[entry] == walk.hash[depth] and _is_set(walk, entry):
            if walk.set_peak[entry] <= peak:
                return True
            walk.set_peak[entry] = peak
            return False
        slot = (slot + 1) & slots
    entry = walk.remembered[0]
    if entry < len(walk.set_hash):
        walk.remembered[0] = entry + 1
        walk.table[slot] = entry + 1
        walk.set_hash[entry], walk.set_peak[entry] = walk.hash[depth], peak
        for word in range(walk.done.shape[1]):
            walk.sets[entry, word] = walk.done[0, word]
    return False


@inlined
def _is_set(walk, entry):
    difference = np.int64(0)
    for word in range(walk.done.shape[1]):
        difference |= walk.sets[entry, word] ^ walk.done[0, word]
    return difference == 0

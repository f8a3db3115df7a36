"""The search of ``search.py`` for lower ground, compiled: numba."""

from typing import NamedTuple

import numpy as np

from regal_jax.native.compilation import inlined, inlined_with_arrays, jit_with_arrays

FOUND, EXHAUSTED, LIMIT = 1, 0, -1
"""How a search ends."""
MOST_BUCKETS = 256
"""Parts that sets are sorted into by how many ops they have."""


class Tree(NamedTuple):
    """The sets that were reached. Each is its parent's and some ops more.

    Attributes:
      parent: int32[N]. in_use: int64[N], bytes. depth: int32[N], ops more than at the root.
      code: uint64[N], hash. offsets: int64[N + 1], ops: int32[], the ops that were added, in order.
      table: int32[], the index of sets by hash, open addressing.
      heap_left, heap_right: int32[N], skew heaps of sets, least bytes first. roots: int32[B].
    """

    parent: np.ndarray
    in_use: np.ndarray
    depth: np.ndarray
    code: np.ndarray
    offsets: np.ndarray
    ops: np.ndarray
    table: np.ndarray
    heap_left: np.ndarray
    heap_right: np.ndarray
    roots: np.ndarray


class Scratch(NamedTuple):
    """To work with: int32[3 * O], int32[O] thrice, int64[O], uint8[O] of zeros, int32[N]."""

    ready: np.ndarray
    chain: np.ndarray
    todo: np.ndarray
    stack: np.ndarray
    cursor: np.ndarray
    mark: np.ndarray
    melded: np.ndarray


@jit_with_arrays
def lower_ground(side, ground, in_use, limit, ops_left, most_sets):
    """From a set, another that contains it, needs no more bytes, and is reached within a limit.

    Sets are expanded by turns, one of each number of ops, least bytes first. An op that raises
    nothing runs at once. Lazy ops run when an op needs them.

    Args:
      side, ground: the set, as it is again afterwards.
      in_use: bytes in memory after it. limit: bytes that no step may exceed.
      ops_left: how many ops neither this side nor the other has; with all of them it is found, too.
      most_sets: sets that may be reached.

    Returns:
      (FOUND, EXHAUSTED or LIMIT; the ops to run, int32[]; bytes after them; sets reached; the least
      limit with which more could have been reached.)
    """
    num_ops = len(side.own)
    tree = _tree(most_sets, num_ops, ops_left)
    work = _scratch(num_ops, most_sets)
    tree.in_use[0], tree.roots[0] = in_use, 0
    # Of a literal number Numba compiles what it is given to twice.
    count, bucket, found, more = np.int64(1), np.int64(0), np.int64(-1), np.int64(2) ** 62
    waiting, status = 1, EXHAUSTED
    num_first = _first_ready(side, ground, work)
    first = work.ready[:num_first].copy()
    while waiting > 0 and status == EXHAUSTED:
        bucket = _next_bucket(tree, bucket)
        node = tree.roots[bucket]
        tree.roots[bucket] = _meld(tree, work, tree.heap_left[node], tree.heap_right[node])
        waiting, bucket = waiting - 1, (bucket + 1) % len(tree.roots)
        length = _load(side, ground, tree, work, node)
        ready = _all_ready(side, ground, work, first, length)
        for i in range(ready):
            if count == most_sets or tree.offsets[count] + num_ops > len(tree.ops):
                status = LIMIT
                break
            made, after, code, blocked = _child(
                side, ground, tree, work, node, count, i, ready, limit
            )
            more = min(more, blocked)
            if made == 0 or _is_known(tree, code):
                continue
            _insert(tree, node, count, made, after, code)
            if after <= in_use or tree.depth[count] == ops_left:
                status, found = FOUND, count
                count += 1
                break
            place = np.int64(tree.depth[count]) * (len(tree.roots) - 1) // ops_left
            tree.roots[place] = _meld(tree, work, tree.roots[place], count)
            count, waiting = count + 1, waiting + 1
        for i in range(length):
            _remove(side, ground, work, work.chain[i])
    path = np.empty(0, np.int32)
    after = np.int64(0)
    if found >= 0:
        length = _chain(tree, work, found)
        path, after = work.chain[:length][::-1].copy(), tree.in_use[found]
    return status, path, after, count, more


@jit_with_arrays
def run(side, ground, op, stack):
    """Adds an op to a set; returns the bytes that it adds. ``stack``: int32[O], to work with."""
    change = _change(side, ground, op)
    _add_op(side, ground, op, stack)
    return change


@inlined_with_arrays
def _tree(most_sets, num_ops, ops_left):
    size = 4
    while size < 4 * most_sets:
        size *= 2
    offsets = np.zeros(most_sets + 1, np.int64)
    return Tree(
        np.full(most_sets, -1, np.int32),
        np.zeros(most_sets, np.int64),
        np.zeros(most_sets, np.int32),
        np.zeros(most_sets, np.uint64),
        offsets,
        np.empty(32 * most_sets + 2 * num_ops, np.int32),
        np.full(size, -1, np.int32),
        np.full(most_sets, -1, np.int32),
        np.full(most_sets, -1, np.int32),
        np.full(min(ops_left, MOST_BUCKETS) + 1, -1, np.int32),
    )


@inlined_with_arrays
def _scratch(num_ops, most_sets):
    return Scratch(
        np.empty(3 * num_ops + 1, np.int32),
        np.empty(num_ops, np.int32),
        np.empty(num_ops, np.int32),
        np.empty(num_ops + 1, np.int32),
        np.empty(num_ops + 1, np.int64),
        np.zeros(num_ops, np.uint8),
        np.empty(most_sets, np.int32),
    )


@inlined
def _change(side, ground, op):
    """Bytes more in memory after an op."""
    change = np.int64(0)
    for i in range(side.opens_offsets[op], side.opens_offsets[op + 1]):
        if ground.opened[side.opens[i]] == 0:
            change += side.size[side.opens[i]]
    for i in range(side.closes_offsets[op], side.closes_offsets[op + 1]):
        if ground.left[side.closes[i]] == 1:
            change -= side.size[side.closes[i]]
    return change


@inlined
def _needs(side, op, before, after):
    """Bytes in memory while an op runs: on top of what is there before it, seen forwards."""
    return (before if side.forwards else after) + side.own[op]


@inlined
def _add_op(side, ground, op, stack):
    ground.inside[op] = 1
    for i in range(side.opens_offsets[op], side.opens_offsets[op + 1]):
        ground.opened[side.opens[i]] += 1
    for i in range(side.closes_offsets[op], side.closes_offsets[op + 1]):
        ground.left[side.closes[i]] -= 1
    if ground.lazy[op]:  # nothing has waited for it since it was ready
        return
    stack[0], count = op, 1
    while count > 0:
        count -= 1
        one = stack[count]
        for i in range(side.after_offsets[one], side.after_offsets[one + 1]):
            other = side.after[i]
            ground.waits[other] -= 1
            if ground.waits[other] == 0 and ground.lazy[other]:
                stack[count] = other
                count += 1


@inlined
def _remove(side, ground, work, op):
    """The reverse of ``_add_op``."""
    ground.inside[op] = 0
    for i in range(side.opens_offsets[op], side.opens_offsets[op + 1]):
        ground.opened[side.opens[i]] -= 1
    for i in range(side.closes_offsets[op], side.closes_offsets[op + 1]):
        ground.left[side.closes[i]] += 1
    if ground.lazy[op]:
        return
    work.stack[0], count = op, 1
    while count > 0:
        count -= 1
        one = work.stack[count]
        for i in range(side.after_offsets[one], side.after_offsets[one + 1]):
            other = side.after[i]
            if ground.waits[other] == 0 and ground.lazy[other]:
                work.stack[count] = other
                count += 1
            ground.waits[other] += 1


@inlined
def _first_ready(side, ground, work):
    """The ops that are ready at the root, but for lazy ones."""
    count = 0
    for op in range(len(side.own)):
        if ground.waits[op] == 0 and not (
            ground.inside[op] or ground.barred[op] or ground.lazy[op]
        ):
            work.ready[count] = op
            count += 1
    return count


@inlined
def _ready_after(side, ground, work, op, count):
    """Appends the ops that became ready by an op, also by way of lazy ones."""
    work.stack[0], size, lazies, begin = op, 1, 0, count
    while size > 0:
        size -= 1
        one = work.stack[size]
        for i in range(side.after_offsets[one], side.after_offsets[one + 1]):
            other = side.after[i]
            if ground.waits[other] != 0 or work.mark[other] or ground.barred[other]:
                continue
            if ground.lazy[other]:
                work.mark[other] = 1
                work.stack[size] = other
                size += 1
                lazies += 1
                work.ready[len(work.ready) - lazies] = other
            elif not ground.inside[other]:
                work.mark[other] = 1
                work.ready[count] = other
                count += 1
    for i in range(lazies):
        work.mark[work.ready[len(work.ready) - 1 - i]] = 0
    for i in range(begin, count):
        work.mark[work.ready[i]] = 0
    return count


@inlined
def _all_ready(side, ground, work, first, length):
    """The ops that are ready after a chain, but for lazy ones."""
    count = np.int64(0)
    for op in first:
        if not ground.inside[op]:
            work.ready[count] = op
            work.mark[op] = 1
            count += 1
    for i in range(length - 1, -1, -1):
        if not ground.lazy[work.chain[i]]:
            begin = count
            count = _ready_after(side, ground, work, work.chain[i], count)
            for j in range(begin, count):
                work.mark[work.ready[j]] = 1
    for i in range(count):
        work.mark[work.ready[i]] = 0
    return count


@inlined
def _chain(tree, work, node):
    """The ops from a set back to the root, last first; returns how many."""
    length = 0
    while node > 0:
        for i in range(tree.offsets[node + 1] - 1, tree.offsets[node] - 1, -1):
            work.chain[length] = tree.ops[i]
            length += 1
        node = tree.parent[node]
    return length


@inlined
def _load(side, ground, tree, work, node):
    length = _chain(tree, work, node)
    for i in range(length - 1, -1, -1):
        _add_op(side, ground, work.chain[i], work.stack)
    return length


@inlined
def _child(side, ground, tree, work, node, child, index, ready, limit):
    """Writes the ops that a ready op adds to a set: lazy ones it needs, it, then what is free.

    Returns (how many, 0 beyond the limit; bytes after them; hash; the least bytes beyond the limit
    that a step needed).
    """
    begin = tree.offsets[child]
    end, now, code, blocked = begin, tree.in_use[node], tree.code[node], np.int64(2) ** 62
    count = _demanded(side, ground, work, work.ready[index])
    for i in range(count):
        op = work.todo[i]
        after = now + _change(side, ground, op)
        if _needs(side, op, now, after) > limit:
            blocked = _needs(side, op, now, after)
            break
        _add_op(side, ground, op, work.stack)
        tree.ops[end], code, now = op, code ^ side.label[op], after
        end += 1
    if end - begin == count:
        ready = _ready_after(side, ground, work, work.ready[index], ready)
        runs = True
        while runs:
            runs = False
            i = 0
            while i < ready:
                op = work.ready[i]
                i += 1
                if ground.inside[op] or not _has_all(side, ground, op):
                    continue
                after = now + _change(side, ground, op)
                if after > now:
                    continue
                if _needs(side, op, now, after) > limit:
                    blocked = min(blocked, _needs(side, op, now, after))
                    continue
                _add_op(side, ground, op, work.stack)
                tree.ops[end], code, now = op, code ^ side.label[op], after
                end, runs = end + 1, True
                ready = _ready_after(side, ground, work, op, ready)
        made = end - begin
    else:
        made = np.int64(0)
    for i in range(end - 1, begin - 1, -1):
        _remove(side, ground, work, tree.ops[i])
    return made, now, code, blocked


@inlined
def _has_all(side, ground, op):
    """Whether all that an op waits for is in the set."""
    for i in range(side.before_offsets[op], side.before_offsets[op + 1]):
        if not ground.inside[side.before[i]]:
            return False
    return True


@inlined
def _demanded(side, ground, work, op):
    """Writes an op and what it waits for and is outside, in order; returns how many."""
    count, size = 0, 1
    work.stack[0], work.cursor[0], work.mark[op] = op, side.before_offsets[op], 1
    while size > 0:
        one = work.stack[size - 1]
        if work.cursor[size - 1] < side.before_offsets[one + 1]:
            other = side.before[work.cursor[size - 1]]
            work.cursor[size - 1] += 1
            if not ground.inside[other] and not work.mark[other]:
                work.mark[other] = 1
                work.stack[size], work.cursor[size] = other, side.before_offsets[other]
                size += 1
        else:
            work.todo[count] = one
            count, size = count + 1, size - 1
    for i in range(count):
        work.mark[work.todo[i]] = 0
    return count


@inlined
def _is_known(tree, code):
    slot = np.int64(code & np.uint64(len(tree.table) - 1))
    while tree.table[slot] >= 0:
        if tree.code[tree.table[slot]] == code:
            return True
        slot = (slot + 1) & (len(tree.table) - 1)
    return False


@inlined
def _insert(tree, parent, node, made, in_use, code):
    slot = np.int64(code & np.uint64(len(tree.table) - 1))
    while tree.table[slot] >= 0:
        slot = (slot + 1) & (len(tree.table) - 1)
    tree.table[slot] = node
    tree.parent[node], tree.in_use[node], tree.code[node] = parent, in_use, code
    tree.depth[node] = tree.depth[parent] + made
    tree.offsets[node + 1] = tree.offsets[node] + made


@inlined
def _next_bucket(tree, bucket):
    while tree.roots[bucket] < 0:
        bucket = (bucket + 1) % len(tree.roots)
    return bucket


@inlined
def _meld(tree, work, one, other):
    """Two skew heaps as one: least bytes first, then most ops, then the first reached."""
    size = 0
    while one >= 0 and other >= 0:
        if _precedes(tree, other, one):
            one, other = other, one
        work.melded[size] = one
        size += 1
        one = tree.heap_right[one]
    top = max(one, other)
    while size > 0:
        size -= 1
        node = work.melded[size]
        tree.heap_right[node] = tree.heap_left[node]
        tree.heap_left[node] = top
        top = node
    return top


@inlined
def _precedes(tree, one, other):
    if tree.in_use[one] != tree.in_use[other]:
        return tree.in_use[one] < tree.in_use[other]
    if tree.depth[one] != tree.depth[other]:
        return tree.depth[one] > tree.depth[other]
    return one < other

"""Maximum flow between two sets of nodes, by blocking flows (Dinic 1970), numba.

Arcs come in pairs: arc ``a ^ 1`` leads back along ``a``. ``left`` is what each may still carry.
"""

import numpy as np

from regal_jax.native.compilation import inlined, jit

INSIDE, SOURCE, SINK = 0, 1, 2
"""What a node is."""


@jit
def solve(offsets, arcs, to, left, side, level, next_arc, queue, path):
    """Sends what can be sent from sources to sinks; returns how much.

    Args:
      offsets int64[N + 1], arcs int32[A]: the arcs that leave each node.
      to int32[A]: where arcs lead. left int64[A]: capacities; what is left of them afterwards.
      side int8[N]: INSIDE, SOURCE or SINK.
      level int32[N]: afterwards, at least 0 for the nodes that sources still reach: those of the
        least cut's side, the smallest there is.
      next_arc int64[N], queue int32[N], path int32[N]: to work with.
    """
    total = np.int64(0)
    while _set_levels(offsets, arcs, to, left, side, level, queue, SOURCE, 0):
        for node in range(len(side)):
            next_arc[node] = offsets[node]
        for node in range(len(side)):
            if side[node] == SOURCE:
                total += _send_from(node, offsets, arcs, to, left, side, level, next_arc, path)
    return total


@jit
def mark_reaching(offsets, arcs, to, left, side, level, queue):
    """``level`` is at least 0 for the nodes that still reach a sink along ``left``, else -1.

    The others are a least cut's side of the sources, the largest there is.
    """
    _set_levels(offsets, arcs, to, left, side, level, queue, SINK, 1)


@inlined
def _set_levels(offsets, arcs, to, left, side, level, queue, kind, back):
    """How many arcs each node is from those of one kind, sources or sinks, along arcs or (``back``
    is 1, not 0) back along them; whether one of the other kind is reached, from where none goes on.
    """
    first, past, reached = 0, 0, False
    for node in range(len(side)):
        level[node] = -1
        if side[node] == kind:
            level[node] = 0
            queue[past] = node
            past += 1
    while first < past:
        node = queue[first]
        first += 1
        if side[node] == SOURCE + SINK - kind:
            reached = True
            continue
        for i in range(offsets[node], offsets[node + 1]):
            other = to[arcs[i]]
            if left[arcs[i] ^ back] > 0 and level[other] < 0:
                level[other] = level[node] + 1
                queue[past] = other
                past += 1
    return reached


@inlined
def _send_from(source, offsets, arcs, to, left, side, level, next_arc, path):
    """A blocking flow from one source along growing levels."""
    node, length, sent = source, 0, np.int64(0)
    while True:
        if side[node] == SINK:
            least = left[path[0]]
            for i in range(1, length):
                least = min(least, left[path[i]])
            sent += least
            keep = length
            for i in range(length - 1, -1, -1):
                left[path[i]] -= least
                left[path[i] ^ 1] += least
                if left[path[i]] == 0:
                    keep = i
            length = keep
            node = to[path[keep] ^ 1]
            continue
        step = -1
        while next_arc[node] < offsets[node + 1]:
            arc = arcs[next_arc[node]]
            if left[arc] > 0 and level[to[arc]] == level[node] + 1:
                step = arc
                break
            next_arc[node] += 1
        if step >= 0:
            path[length] = step
            length += 1
            node = to[step]
        elif length > 0:
            level[node] = -1
            length -= 1
            node = to[path[length] ^ 1]
        else:
            return sent

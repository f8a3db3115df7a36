"""What is reached from some nodes along rows, numba."""

from regal_jax.native.compilation import jit


@jit
def mark(offsets, values, starts, seen, stack):
    """``seen[n]`` is 1 for every n that is reached from ``starts``; a start itself only if it is.

    Args:
      offsets int64[N + 1], values int32: where each node leads. starts int64[K].
      seen int8[N]: 0; afterwards as said. stack int32[N]: to work with.
    """
    depth = 0
    for start in starts:
        for i in range(offsets[start], offsets[start + 1]):
            if not seen[values[i]]:
                seen[values[i]] = 1
                stack[depth] = values[i]
                depth += 1
    while depth:
        depth -= 1
        node = stack[depth]
        for i in range(offsets[node], offsets[node + 1]):
            if not seen[values[i]]:
                seen[values[i]] = 1
                stack[depth] = values[i]
                depth += 1

"""Binary heaps in compiled kernels: the largest of some keys, and the first of some times."""

import numpy as np

from regal_jax.native.compilation import inlined


@inlined
def pop_largest(keys, size, total):
    """(the largest key, uint64, keys left); all keys left are then in the heap.

    ``keys[:size]`` is a max-heap, ``keys[size:total]`` was appended since. One appended key takes
    the place of the key that leaves, which saves most of the sifting. Writes one entry past the
    end.
    """
    key = keys[total - 1]
    left = total - 1
    for new in range(size, left):
        _sift_up(keys, new)
    if left > 0 and keys[0] > key:
        top = keys[0]
        _sift_down(keys, key, left)
        key = top
    return key, left


@inlined
def _sift_up(keys, child):
    key = keys[child]
    while child > 0:
        parent = (child - 1) >> 1
        if keys[parent] >= key:
            break
        keys[child] = keys[parent]
        child = parent
    keys[child] = key


@inlined
def _sift_down(keys, key, size):
    """Puts a key at the root of a heap and lets it sink; writes one entry past the end."""
    keys[size] = 0
    hole, child = 0, 1
    while child < size:
        child += keys[child + 1] > keys[child]
        if key >= keys[child]:
            break
        keys[hole] = keys[child]
        hole, child = child, 2 * child + 1
    keys[hole] = key


@inlined
def push(times, items, size, time, item):
    """Adds an item to a min-heap of times; returns its new size."""
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if times[parent] <= time:
            break
        times[child] = times[parent]
        items[child] = items[parent]
        child = parent
    times[child] = time
    items[child] = item
    return size + 1


@inlined
def pop(times, items, size):
    """(an item of the first time, the min-heap's new size). Writes one entry past the end."""
    item = np.int64(items[0])
    size -= 1
    time, last = times[size], items[size]
    times[size] = np.inf
    hole, child = 0, 1
    while child < size:
        child += times[child + 1] < times[child]
        if times[child] >= time:
            break
        times[hole] = times[child]
        items[hole] = items[child]
        hole, child = child, 2 * child + 1
    times[hole] = time
    items[hole] = last
    return item, size

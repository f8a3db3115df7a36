"""Ops in the order of their priorities."""

from typing import NamedTuple

import numpy as np

from regal_jax.native.compilation import inlined, inlined_with_arrays
from regal_jax.native.packing import wide


class Order(NamedTuple):
    """Working arrays of the sort, and its result."""

    keys: np.ndarray  # int64[O], priority (high half) and op (low half), sorted
    keys_too: np.ndarray  # int64[O]
    digits: np.ndarray  # int64[1024], 4 histograms of 256


@inlined_with_arrays
def order_arrays(graph, address):
    """(the sort's arrays, the address behind them)."""
    num_ops = len(graph.duration)
    keys, at = wide(address, num_ops)
    keys_too, at = wide(at, num_ops)
    digits, at = wide(at, 1024)
    return Order(keys, keys_too, digits), at


@inlined
def sort(bits, order):
    """``keys``: ops by decreasing priority, ties by index. A radix sort by digits of eight bits."""
    source, target, digits = order
    num_ops = len(source)
    digits[:] = 0
    for op in range(num_ops):
        key = np.int64(bits[op])
        if key < 0:
            key ^= 0x7FFFFFFF
            key += key == -1  # -0.0 equals 0.0
        key = 0x7FFFFFFF - key
        source[op] = (key << 32) | op
        digits[key & 255] += 1
        digits[256 + ((key >> 8) & 255)] += 1
        digits[512 + ((key >> 16) & 255)] += 1
        digits[768 + (key >> 24)] += 1
    for digit in range(4):
        total = 0
        for i in range(256 * digit, 256 * digit + 256):
            count = digits[i]
            digits[i] = total
            total += count
        shift = 32 + 8 * digit
        for i in range(num_ops):
            key = source[i]
            bucket = 256 * digit + ((key >> shift) & 255)
            target[digits[bucket]] = key
            digits[bucket] += 1
        source, target = target, source


@inlined
def assign_ranks(keys, rank_of, op_at):
    """Writes the rank of each op, and the op of each rank."""
    for rank in range(len(keys)):
        op = keys[rank] & 0xFFFFFFFF
        rank_of[op] = rank
        op_at[rank] = op

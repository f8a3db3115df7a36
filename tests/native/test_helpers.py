"""Heaps, bits, random numbers and packed arrays, as kernels use them."""

import heapq

import numba
import numpy as np
import pytest

from regal_jax.native import bits, heap, packing, random
from regal_jax.native.compilation import jit, jit_with_arrays


def called(helper):
    """A kernel that calls a part of kernels, which Python can't."""
    return numba.njit(lambda *arguments: helper(*arguments))


push, pop, pop_largest = called(heap.push), called(heap.pop), called(heap.pop_largest)
add, below = called(bits.add), called(random.below)


def test_times_leave_a_heap_in_order():
    rng = np.random.default_rng(0)
    times, items = np.empty(202), np.empty(202, np.int32)
    expected, size = [], np.int64(0)
    for item in range(200):
        time = float(rng.integers(1000)) + item / 1000  # distinct
        size = push(times, items, size, time, np.int64(item))
        heapq.heappush(expected, (time, item))
        if rng.random() < 0.3:
            item, size = pop(times, items, size)
            assert item == heapq.heappop(expected)[1]
        assert size == len(expected)
    while size:
        item, size = pop(times, items, size)
        assert item == heapq.heappop(expected)[1]


def test_the_largest_key_leaves_though_some_were_only_appended():
    rng = np.random.default_rng(1)
    keys, expected, size = np.empty(400, np.uint64), [], 0
    for _ in range(100):
        total = size
        for key in rng.integers(0, 2**64, rng.integers(0, 4), np.uint64).tolist():
            keys[total] = key
            total += 1
            heapq.heappush(expected, -key)
        if total:
            key, size = pop_largest(keys, size, total)
            assert key == -heapq.heappop(expected)
            assert size == len(expected)


@jit
def _members(words, found):
    count = 0
    for word in range(len(words)):
        left = words[word]
        while left != 0:
            found[count] = 64 * word + bits.lowest(left)
            left &= left - 1
            count += 1
    return count


def test_the_members_of_a_bitset():
    members = [0, 1, 62, 63, 64, 127, 190, 191]
    words, found = np.zeros(3, np.int64), np.empty(192, np.int64)
    for member in reversed(members):
        assert add(words, np.int32(member)) == member // 64
        assert add(words, member) == member // 64  # already in it
    assert found[: _members(words, found)].tolist() == members


@jit
def _there_and_back(number):
    return bits.of_float(number), bits.as_float(bits.of_float(number))


@pytest.mark.parametrize("number", [0.0, 1.5, 1e300, 5e-324])
def test_the_bits_of_numbers(number):
    word, again = _there_and_back(number)
    assert word == np.float64(number).view(np.int64)
    assert again == number


def test_random_numbers_are_splitmix64():
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    state = np.array([1234567], np.uint64)
    for number in published:
        assert below(state, 1000) == int((number >> 11) * 2.0**-53 * 1000)


@jit_with_arrays
def _read(address):
    lengths = packing.words(address, 4)
    signed, at = packing.wide(address + 32, lengths[0])
    floats, at = packing.floats(at, lengths[1])
    narrow, at = packing.narrow(at, lengths[2])
    unsigned, at = packing.unsigned(at, lengths[3])
    return signed.copy(), floats.copy(), narrow.copy(), unsigned.copy(), at - address


def test_compiled_code_reads_what_is_packed():
    columns = [
        np.array([-(2**63), 2**63 - 1]),
        np.array([0.1, np.inf, 5e-324]),
        np.array([1, -2, 3], np.int32),
        np.array([2**64 - 1], np.uint64),
    ]
    packed = packing.pack(columns)
    *read, length = _read(packed.ctypes.data)
    again = packing.unpack(np.pad(packed, (0, 9)), [column.dtype for column in columns])
    for column, compiled, unpacked in zip(columns, read, again, strict=True):
        np.testing.assert_array_equal(compiled, column)
        np.testing.assert_array_equal(unpacked, column)
        assert compiled.dtype == unpacked.dtype == column.dtype
    assert length == 4 * len(packed)

"""Where buffers are put."""

import dataclasses
import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.compiler.xla.buffers import Allocation, Buffer
from regal_jax.compiler.xla.packing import ALIGNMENT, Span, heap, temporary_bytes


def buffer(size, first, last, kind="temporary", donor=None):
    return Buffer([("e", "x")], size * ALIGNMENT, first, last, kind, donor)


def packed(*buffers, steps=12):
    return temporary_bytes(Allocation([("e", str(i)) for i in range(steps)], list(buffers)))


def test_buffers_that_are_never_in_use_together_share_memory():
    assert packed(buffer(4, 0, 1), buffer(4, 2, 3)) == 4 * ALIGNMENT
    assert packed(buffer(4, 0, 2), buffer(4, 2, 3)) == 8 * ALIGNMENT


def test_where_spans_lie_in_the_heap():
    found = heap([Span(0, 1, 64), Span(0, 3, 128), Span(2, 3, 64)])
    assert found.starts.tolist() == [128, 0, 128]
    assert found.num_bytes == 192
    assert heap([]).num_bytes == 0


def test_sizes_are_aligned():
    odd = Buffer([("e", "x")], 1, 0, 3)
    other = Buffer([("e", "y")], 1, 0, 3)
    assert packed(odd, other) == 2 * ALIGNMENT


def test_a_temporary_fits_into_an_output_before_that_is_made():
    output = buffer(8, 5, 11, "output")
    assert packed(output, buffer(6, 0, 3)) == 0
    assert packed(output, buffer(6, 0, 3), buffer(2, 3, 4)) == 2 * ALIGNMENT
    assert packed(output, buffer(9, 0, 3)) == 9 * ALIGNMENT
    assert packed(output, buffer(6, 0, 5)) == 6 * ALIGNMENT


def test_a_donor_is_in_the_way_until_its_last_reader():
    output = buffer(8, 8, 11, "output", donor=buffer(8, 0, 3, "parameter"))
    assert packed(output, buffer(8, 4, 7)) == 0
    assert packed(output, buffer(8, 3, 7)) == 8 * ALIGNMENT


def test_a_copy_is_not_made_in_its_operands_memory_if_it_is_an_output():
    source = buffer(8, 0, 5)
    output = dataclasses.replace(buffer(8, 5, 11, "output"), takes=(source,))
    assert packed(output, source) == 0
    assert packed(dataclasses.replace(output, is_copy=True), source) == 8 * ALIGNMENT


def test_the_smallest_gap_is_taken():
    # a 6 at 0, b 2 at 6, c 1 at 8, d 4 at 9; when a and c are gone, 1 goes to c's place
    buffers = [buffer(6, 0, 3), buffer(5, 0, 9), buffer(2, 0, 3), buffer(1, 0, 9)]
    assert packed(*buffers, buffer(2, 4, 9), buffer(6, 4, 9)) == 14 * ALIGNMENT


spans = st.tuples(st.integers(1, 9), st.integers(0, 11), st.integers(0, 11)).map(
    lambda t: buffer(t[0], min(t[1:]), max(t[1:]))
)


@given(st.lists(spans, max_size=12))
def test_the_heap_is_between_what_is_in_use_and_all_of_it(buffers):
    found = packed(*buffers)
    live = np.zeros(12, int)
    for one in buffers:
        live[one.first : one.last + 1] += one.num_bytes
    assert live.max(initial=0) <= found <= sum(one.num_bytes for one in buffers)


@given(st.lists(spans, max_size=6), st.permutations(range(6)))
def test_the_order_of_the_list_matters_only_between_equals(buffers, order):
    distinct = {(b.num_bytes, b.first, b.last): b for b in buffers}
    ordered = list(itertools.islice(distinct.values(), 6))
    shuffled = [ordered[i] for i in order if i < len(ordered)]
    assert packed(*ordered) == packed(*shuffled)

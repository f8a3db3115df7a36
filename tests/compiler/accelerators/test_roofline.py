"""A kernel's time, by hand."""

import pytest

from regal_jax.compiler.accelerators.roofline import (
    CONVOLUTIONS,
    LAUNCH,
    MEMORY,
    PRODUCTS,
    kernel_seconds,
)
from regal_jax.compiler.accelerators.specifications import SPECIFICATIONS

H100 = SPECIFICATIONS["h100"]


def test_what_does_nothing_is_launched():
    assert kernel_seconds(0, 0, {"f32"}, False, H100) == LAUNCH


@pytest.mark.parametrize(
    ("types", "is_convolution", "rate"),
    [
        ({"f32"}, False, PRODUCTS * 494.7e12),
        ({"bf16"}, False, PRODUCTS * 989.4e12),
        ({"f32", "bf16"}, True, CONVOLUTIONS * 989.4e12),
        ({"s32"}, False, PRODUCTS * 494.7e12),
        ((), True, CONVOLUTIONS * 494.7e12),
    ],
)
def test_arithmetic_holds_the_time_where_little_is_moved(types, is_convolution, rate):
    seconds = kernel_seconds(1e12, 1.0, types, is_convolution, H100)
    assert seconds == pytest.approx(LAUNCH + 1e12 / rate)


def test_memory_holds_it_where_much_is():
    seconds = kernel_seconds(1.0, 1e9, {"f32"}, False, H100)
    assert seconds == pytest.approx(LAUNCH + 1e9 / (MEMORY * 3.35e12))

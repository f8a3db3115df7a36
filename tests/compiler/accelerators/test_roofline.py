"""A kernel's time, by hand."""

import pytest

from regal_jax.compiler.accelerators.roofline import (
    LAUNCH,
    MEMORY,
    Kind,
    convolution,
    kernel_seconds,
)
from regal_jax.compiler.accelerators.specifications import SPECIFICATIONS

H100 = SPECIFICATIONS["h100"]


def test_what_does_nothing_is_launched():
    assert kernel_seconds(0, 0, {"f32"}, Kind.PRODUCT, H100) == LAUNCH


@pytest.mark.parametrize(
    ("types", "kind", "rate"),
    [
        ({"f32"}, Kind.PRODUCT, 0.4 * 494.7e12),
        ({"bf16"}, Kind.PRODUCT, 0.4 * 989.4e12),
        ({"f32", "bf16"}, convolution(1, 49), 0.15 * 989.4e12),
        ({"s32"}, Kind.PRODUCT, 0.4 * 494.7e12),
        ((), convolution(36, 25), 0.003 * 494.7e12),
        ((), convolution(36, 9), 0.15 * 494.7e12),
    ],
)
def test_arithmetic_holds_the_time_where_little_is_moved(types, kind, rate):
    assert kernel_seconds(1e12, 1.0, types, kind, H100) == pytest.approx(LAUNCH + 1e12 / rate)


def test_memory_holds_it_where_much_is():
    seconds = kernel_seconds(1.0, 1e9, {"f32"}, Kind.PRODUCT, H100)
    assert seconds == pytest.approx(LAUNCH + 1e9 / (MEMORY * 3.35e12))

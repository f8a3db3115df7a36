import pytest

from regal_jax.graphs.importers.roofline import A100, DeviceProfile, duration_us


def test_the_slower_of_arithmetic_and_memory_decides():
    profile = DeviceProfile("toy", flops_per_second=1e6, bytes_per_second=2e6)
    assert duration_us(3, 4, profile) == pytest.approx(3.0)
    assert duration_us(1, 4, profile) == pytest.approx(2.0)
    assert duration_us(0, 0, profile) == 0.0


def test_default_profile_is_an_a100():
    assert (A100.flops_per_second, A100.bytes_per_second) == (19.5e12, 1555e9)
    assert duration_us(19.5e6, 0) == pytest.approx(1.0)

"""Times as whole numbers: units that divide them, and rounding down where none does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.search.cp_sat.integer_times import TIME_BITS, time_unit


@pytest.mark.parametrize(
    ("times", "per_us", "whole"),
    [
        ([1.0, 2.0, 0.0], 1.0, [1, 2, 0]),
        ([0.5, 0.75], 4.0, [2, 3]),
        ([0.0, 0.0], 1.0, [0, 0]),
    ],
)
def test_times_in_binary_fractions_are_exact(times, per_us, whole):
    unit = time_unit(np.array(times), 10.0)
    assert (unit.per_us, unit.exact, unit.divides) == (per_us, True, True)
    assert unit.whole(np.array(times)) == whole
    assert unit.bound(sum(whole), 2) == sum(times)


@pytest.mark.parametrize("factor", [0.1, 1 / 3, 1e-9, 0.7, 1e12 / 3])
@given(st.lists(st.integers(0, 50), min_size=1, max_size=8))
def test_a_common_divisor_is_found(factor, numbers):
    times = np.array(numbers) * factor
    unit = time_unit(times, max(float(times.sum()), factor))
    assert unit.divides
    units = np.array(unit.whole(times), float)
    np.testing.assert_allclose(units / unit.per_us, times, rtol=1e-14)
    bound = unit.bound(units.sum(), len(times))
    assert bound <= times.sum() <= bound * (1 + 1e-12)


def test_others_are_rounded_down():
    times = np.random.default_rng(0).random(20)
    unit = time_unit(times, float(times.sum()))
    assert not unit.divides
    units = np.array(unit.whole(times), float)
    assert np.all(units / unit.per_us <= times)
    assert units.sum() < 2.0**TIME_BITS
    assert unit.bound(units.sum(), 20) <= times.sum() <= unit.bound(units.sum(), 20) * (1 + 1e-8)


def test_endless_schedules_have_no_unit():
    assert time_unit(np.array([1.0]), np.inf) is None


@pytest.mark.parametrize("least", [1e-300, 5e-324])
def test_hardly_any_time(least):
    times = np.array([least, 3 * least])
    unit = time_unit(times, float(times.sum()))
    units = np.array(unit.whole(times), float)
    assert np.all(np.isfinite(units))
    assert 0 <= unit.bound(units.sum(), 2) <= times.sum()

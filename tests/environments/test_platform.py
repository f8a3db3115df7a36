"""The platform's options."""

import math

import numpy as np
import pytest

from regal_jax.environments.platform import MAX_DEVICES, Platform
from regal_jax.errors import OptionError


def test_capacities():
    assert Platform(3).capacities().tolist() == [math.inf] * 3
    assert Platform(2, memory_capacity=5).capacities().tolist() == [5, 5]
    assert Platform(2, memory_capacity=(5, 2**53)).capacities().tolist() == [5, 2**53]


def test_limits_are_inclusive():
    assert Platform(1).num_devices == 1
    assert Platform(MAX_DEVICES).num_devices == MAX_DEVICES


@pytest.mark.parametrize(
    "options",
    [
        {"num_devices": 0},
        {"num_devices": -1},
        {"num_devices": MAX_DEVICES + 1},
        {"latency": -1.0},
        {"latency": math.nan},
        {"latency": math.inf},
        {"per_byte": -0.5},
        {"per_byte": math.nan},
        {"memory_capacity": 0},
        {"memory_capacity": -5},
        {"memory_capacity": math.nan},
        {"memory_capacity": (5,)},
        {"memory_capacity": (5, 0)},
        {"memory_capacity": (5, 5, 5)},
        {"memory_capacity": ()},
    ],
)
def test_options_out_of_range_are_rejected_in_one_line(options):
    with pytest.raises(OptionError) as caught:
        Platform(**options)
    assert next(iter(options)) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_is_hashable_by_value():
    assert hash(Platform(2, memory_capacity=(1, 2))) == hash(Platform(2, memory_capacity=(1, 2)))
    assert Platform(2) == Platform(num_devices=2)
    assert np.all(np.isinf(Platform().capacities()))

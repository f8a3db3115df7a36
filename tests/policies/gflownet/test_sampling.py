"""Drawing any number of schedules outside jit."""

import dataclasses

import jax
import numpy as np
import pytest

from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError
from regal_jax.policies.gflownet import sampling
from regal_jax.policies.gflownet.policy import flow_inputs
from tests.policies.gflownet.cases import ENCODE_ONCE, GRAPH, random_policy

CONFIG = dataclasses.replace(ENCODE_ONCE, encoder="mlp")
INPUTS = flow_inputs(GRAPH, Platform(2), CONFIG, 6, 4, 4)
PARAMS = random_policy(CONFIG, INPUTS)


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch):
    monkeypatch.setattr(sampling, "AT_ONCE", 8)


def draw(count, *, temperature=0.5, seed=0):
    return sampling.draw(
        jax.random.key(seed),
        PARAMS,
        INPUTS,
        temperature,
        policy=CONFIG,
        num_devices=2,
        count=count,
    )


def test_there_are_as_many_as_asked_for():
    for count in (1, 8, 9, 21):
        drawn = draw(count)
        assert drawn.op.shape == drawn.device.shape == drawn.start.shape == (count, 6)
        assert drawn.device_of.shape == (count, 6)
        assert drawn.makespan.shape == (count,)
        assert all(isinstance(part, np.ndarray) for part in drawn)
        assert (np.sort(drawn.op[:, :4], axis=1) == np.arange(4)).all()


def test_batches_are_different_and_larger_draws_begin_alike():
    drawn = draw(24)
    batches = drawn.op.reshape(3, 8, 6)
    assert (batches[0] != batches[1]).any()
    assert (batches[1] != batches[2]).any()
    np.testing.assert_array_equal(draw(9).op, drawn.op[:9])


def test_a_key_is_a_draw():
    for left, right in zip(draw(8), draw(8), strict=True):
        np.testing.assert_array_equal(left, right)
    assert (draw(8).op != draw(8, seed=1).op).any()


def test_temperatures_and_large_counts_share_a_compilation():
    draw(8)
    before = sampling._draw._cache_size()
    for count, temperature in ((9, 0.5), (30, 0.5), (16, 0.01), (8, 2.0)):
        draw(count, temperature=temperature)
    assert sampling._draw._cache_size() == before


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_temperatures_are_positive(temperature):
    with pytest.raises(OptionError, match="temperature must be a positive number"):
        draw(1, temperature=temperature)


def test_there_is_at_least_one():
    with pytest.raises(OptionError, match="number of samples must be at least 1, got 0"):
        draw(0)

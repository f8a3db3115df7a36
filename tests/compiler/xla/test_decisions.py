"""Decisions that are kept: what their keys are of."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import SingleDeviceSharding

from regal_jax.compiler.xla import decisions


def step(params, batch, moments):
    return params * batch, moments + batch


def lowered(donated=(), **where):
    shapes = [jax.ShapeDtypeStruct((4, 8), jnp.float32, **where) for _ in range(3)]
    return jax.jit(step, donate_argnums=donated).lower(*shapes)


@pytest.mark.parametrize("donated", [(), (0,), (0, 2)])
def test_arguments_that_are_told_their_one_device_change_no_key(donated):
    """So that what was decided without a device holds on it."""
    placed = lowered(donated, sharding=SingleDeviceSharding(jax.devices()[0]))
    assert "empty_mesh" in placed.as_text()
    assert decisions.key_of(placed, "h100") == decisions.key_of(lowered(donated), "h100")


def test_programs_and_settings_change_a_key():
    keys = [
        decisions.key_of(lowered(), "h100"),
        decisions.key_of(lowered(), "h200"),
        decisions.key_of(lowered((0,)), "h100"),
    ]
    assert len(set(keys)) == 3

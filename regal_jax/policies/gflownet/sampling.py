"""Drawing schedules from a trained policy, outside jit."""

import functools
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from regal_jax import registry
from regal_jax.errors import OptionError
from regal_jax.options import check_temperature
from regal_jax.policies import base
from regal_jax.policies.gflownet import rollout
from regal_jax.policies.gflownet.policy import FlowConfig, FlowInputs
from regal_jax.policies.gflownet.rollout import Trajectories

AT_ONCE = 250
"""Schedules drawn together: enough to use a processor's vectors, few enough for its caches."""


def draw(
    key: chex.PRNGKey,
    params: Any,
    inputs: FlowInputs,
    temperature: float,
    *,
    policy: FlowConfig,
    num_devices: int,
    count: int,
) -> Trajectories:
    """``count`` schedules at a temperature, numpy arrays, in order of drawing.

    Raises:
      OptionError: for a temperature that isn't a positive number, or less than one schedule.
    """
    check_temperature(temperature)
    if count < 1:
        raise OptionError(f"the number of samples must be at least 1, got {count}")
    log_temperature = jnp.float32(np.log(temperature))
    parts = []
    for batch in range(-(-count // AT_ONCE)):
        own = jax.random.fold_in(key, batch)
        some = min(AT_ONCE, count)
        parts.append(_draw(own, params, inputs, log_temperature, policy, num_devices, some))
    joined = jax.tree.map(lambda *rows: np.concatenate([np.asarray(r) for r in rows]), *parts)
    return jax.tree.map(lambda rows: rows[:count], joined)


def sample(
    key: chex.PRNGKey,
    params: Any,
    inputs: FlowInputs,
    log_temperature: jax.Array,
    policy: FlowConfig,
    num_devices: int,
    count: int,
) -> Trajectories:
    """``rollout.sample`` of a configuration's policy; ParameterError as of ``base.fitting``."""
    with base.fitting(policy):
        return rollout.sample(
            registry.make_policy(policy),
            params,
            key,
            inputs,
            log_temperature,
            num_devices=num_devices,
            count=count,
        )


_draw = functools.partial(jax.jit, static_argnames=("policy", "num_devices", "count"))(sample)

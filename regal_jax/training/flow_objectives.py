"""Losses of generative flow networks, of N trajectories of one graph and one temperature.

All are 0 for exact flows only. Arguments are log-probabilities of whole trajectories, float[N], or
of their steps, float[N, T], in which the steps of padding are 0.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Flows(NamedTuple):
    """What losses are made of.

    Attributes:
      log_forward, log_backward: float[N, T], of each step, and of taking it back.
      log_reward: float[N], of the trajectories' ends.
      log_partition: float[], estimate of the logarithm of the sum of all rewards.
    """

    log_forward: jax.Array
    log_backward: jax.Array
    log_reward: jax.Array
    log_partition: jax.Array


Objective = Callable[[Flows], jax.Array]
"""(flows) -> float[], to be minimised."""


def log_reward(speedup: jax.Array, num_devices: int, temperature: jax.Array | float) -> jax.Array:
    """float[N]: (U - m) / sigma, of speedups (gflownet_robust_scheduling, 3.3)."""
    return (speedup - num_devices) / temperature


def implied_log_partition(flows: Flows) -> jax.Array:
    """float[N]: zeta of eq. 7, which for exact flows is log Z, the same for all trajectories."""
    backward, forward = jnp.sum(flows.log_backward, axis=1), jnp.sum(flows.log_forward, axis=1)
    return flows.log_reward + backward - forward


def log_partition_variance(flows: Flows) -> jax.Array:
    """float[]: eq. 8, the variance of zeta over the trajectories."""
    zeta = implied_log_partition(flows)
    return jnp.mean((zeta - jnp.mean(zeta)) ** 2)


def damped_variance(flows: Flows) -> jax.Array:
    """float[]: log(1 + eq. 8), ours: so no graph of an update outweighs the others, as those at low
    temperatures would, whose variances are a thousand times larger."""
    return jnp.log1p(log_partition_variance(flows))


def trajectory_balance(flows: Flows) -> jax.Array:
    """float[]: eq. 14, half the mean square of log Z - zeta (Malkin et al. 2022)."""
    return jnp.mean((flows.log_partition - implied_log_partition(flows)) ** 2) / 2


OBJECTIVES: dict[str, Objective] = {
    "log_partition_variance": log_partition_variance,
    "damped_variance": damped_variance,
    "trajectory_balance": trajectory_balance,
}

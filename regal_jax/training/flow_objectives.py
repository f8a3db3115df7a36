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
      log_flow: float[N, T], of the state before each step.
      log_partition: float[], estimate of the logarithm of the sum of all rewards.
      real: bool[N, T], False for padding.
    """

    log_forward: jax.Array
    log_backward: jax.Array
    log_reward: jax.Array
    log_flow: jax.Array
    log_partition: jax.Array
    real: jax.Array


DECAY = 0.9
"""Of ``sub_trajectory_balance``."""

Objective = Callable[[Flows], jax.Array]
"""(flows) -> float[], to be minimised."""


def log_reward(speedup: jax.Array, num_devices: int, temperature: jax.Array | float) -> jax.Array:
    """float[N]: (U - m) / sigma, of speedups (gflownet_robust_scheduling, 3.3)."""
    return (speedup - num_devices) / temperature


def implied_log_partition(flows: Flows) -> jax.Array:
    """float[N]: zeta of eq. 7, which for exact flows is log Z, the same for all trajectories."""
    backward, forward = jnp.sum(flows.log_backward, axis=1), jnp.sum(flows.log_forward, axis=1)
    return flows.log_reward + backward - forward


class Convergence(NamedTuple):
    """How far flows are from exact ones, by trajectories that their policy has drawn.

    Attributes:
      spread_ratio: standard deviation of zeta over that of log R; 0 if exact, about 1 or more where
        the policy doesn't know the reward.
      effective_samples: how many of N independent samples of the reward's distribution the
        trajectories, weighted by exp(zeta), are worth: 1 to N, N if exact.
    """

    spread_ratio: jax.Array
    effective_samples: jax.Array


def convergence(flows: Flows) -> Convergence:
    """See ``Convergence``."""
    zeta = implied_log_partition(flows)
    weight = jax.nn.softmax(zeta)
    spread = jnp.std(zeta) / jnp.maximum(jnp.std(flows.log_reward), 1e-6)
    return Convergence(spread, 1.0 / jnp.sum(weight**2))


def log_partition_variance(flows: Flows) -> jax.Array:
    """float[]: eq. 8, the variance of zeta over the trajectories."""
    zeta = implied_log_partition(flows)
    return jnp.mean((zeta - jnp.mean(zeta)) ** 2)


def trajectory_balance(flows: Flows) -> jax.Array:
    """float[]: eq. 14, half the mean square of log Z - zeta (Malkin et al. 2022)."""
    return jnp.mean((flows.log_partition - implied_log_partition(flows)) ** 2) / 2


def detailed_balance(flows: Flows) -> jax.Array:
    """float[]: mean square over the steps of log F(s) P_F(s' | s) - log F(s') P_B(s | s'), with the
    reward as the flow of complete schedules (Bengio et al. 2021, GFlowNet foundations)."""
    after = jnp.concatenate([flows.log_flow[:, 1:], flows.log_reward[:, None]], axis=1)
    is_last = flows.real & ~jnp.pad(flows.real[:, 1:], ((0, 0), (0, 1)))
    after = jnp.where(is_last, flows.log_reward[:, None], after)
    gap = flows.log_flow + flows.log_forward - after - flows.log_backward
    return jnp.sum(jnp.where(flows.real, gap, 0.0) ** 2) / jnp.maximum(jnp.sum(flows.real), 1)


def sub_trajectory_balance(flows: Flows) -> jax.Array:
    """float[]: mean square of what detailed balance is off by over every part of a trajectory, a
    part of n steps weighted by DECAY^n (Madan et al. 2023, SubTB)."""
    whole = jnp.concatenate([flows.log_flow, flows.log_reward[:, None]], axis=1)
    steps = jnp.cumsum(flows.log_forward - flows.log_backward, axis=1)
    height = whole - jnp.pad(steps, ((0, 0), (1, 0)))
    place = jnp.arange(whole.shape[1])
    length = place - place[:, None]
    counts = jnp.pad(flows.real, ((0, 0), (0, 1)), constant_values=True)
    both = counts[:, None, :] & counts[:, :, None] & (length > 0)
    weight = jnp.where(both, DECAY ** jnp.maximum(length, 0), 0.0)
    gap = height[:, None, :] - height[:, :, None]
    return jnp.sum(weight * jnp.where(both, gap, 0.0) ** 2) / jnp.maximum(jnp.sum(weight), 1e-9)


OBJECTIVES: dict[str, Objective] = {
    "log_partition_variance": log_partition_variance,
    "trajectory_balance": trajectory_balance,
    "detailed_balance": detailed_balance,
    "sub_trajectory_balance": sub_trajectory_balance,
}

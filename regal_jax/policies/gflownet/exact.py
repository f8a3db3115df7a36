"""How likely a policy ends in each complete schedule of a small graph, and how likely it should."""

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from regal_jax import registry
from regal_jax.environments.construction import env
from regal_jax.environments.construction.enumeration import Level, in_blocks
from regal_jax.environments.construction.env import ConstructionProblem
from regal_jax.policies.gflownet.policy import FlowConfig, FlowInputs


def log_probabilities(
    params: Any,
    inputs: FlowInputs,
    log_temperature: float,
    levels: Sequence[Level],
    *,
    policy: FlowConfig,
) -> np.ndarray:
    """float64[S]: the logarithm of the probability of each state of the last level, the sum over
    all ways to it of the products of the forward probabilities.

    Args:
      levels: of ``enumeration.levels``, as symmetric as the policy.
    """
    reached = np.zeros(1)
    encoding = _encode(params, inputs, jnp.float32(log_temperature), policy)
    score = functools.partial(_forward, params, encoding, inputs, policy)
    for before, level in itertools.pairwise(levels):
        forward = in_blocks(score, before.states)
        taken = reached[level.parent] + forward[level.parent, level.op, level.device]
        reached = np.full(len(level.states.last), -np.inf)
        np.logaddexp.at(reached, level.child, taken)
    return reached


def makespans(problem: ConstructionProblem, levels: Sequence[Level]) -> np.ndarray:
    """float[S], us, of the states of the last level."""
    return in_blocks(functools.partial(_makespans, problem), levels[-1].states)


def boltzmann(log_reward: np.ndarray) -> np.ndarray:
    """float64[S]: probabilities in proportion to the rewards."""
    found = np.exp(np.asarray(log_reward, np.float64) - log_reward.max())
    return found / found.sum()


def total_variation(one: np.ndarray, other: np.ndarray) -> float:
    """Of two distributions over the same states: 0 if they are equal, 1 if they have none in
    common."""
    return float(np.abs(one - other).sum() / 2)


@functools.partial(jax.jit, static_argnames="policy")
def _encode(params, inputs, log_temperature, policy: FlowConfig):
    return registry.make_policy(policy).encode(params, inputs, log_temperature)


@functools.partial(jax.jit, static_argnames="policy")
def _forward(params, encoding, inputs, policy: FlowConfig, states) -> jax.Array:
    """float[S, O, D]: log-probabilities of adding each op to each device."""

    def one(state):
        found = registry.make_policy(policy).logits(params, encoding, inputs, state)
        table = jnp.full(state.arrival.shape, -jnp.inf)
        return table.at[found.op].set(found.forward, mode="drop")

    return jax.vmap(one)(states)


@jax.jit
def _makespans(problem: ConstructionProblem, states) -> jax.Array:
    return jax.vmap(functools.partial(env.makespan, problem))(states)

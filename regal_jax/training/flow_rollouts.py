"""What an update of a policy over construction begins with: schedules of its own, their worth."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.policies.gflownet import rollout
from regal_jax.policies.gflownet.policy import FlowConfig, FlowInputs, flow_policy
from regal_jax.policies.gflownet.rollout import Likelihood, Trajectories
from regal_jax.training.flow_plan import FlowPlan


def drawn(
    params: Any,
    key: chex.PRNGKey,
    inputs: FlowInputs,
    log_temperature: jax.Array,
    policy: FlowConfig,
    plan: FlowPlan,
) -> Trajectories:
    """As many trajectories of a policy as the plan asks for."""
    return rollout.sample(
        flow_policy(policy),
        params,
        key,
        inputs,
        log_temperature,
        num_devices=plan.num_devices,
        count=plan.trajectories,
    )


def likelihood(
    params: Any,
    found: Trajectories,
    inputs: FlowInputs,
    log_temperature: jax.Array,
    policy: FlowConfig,
    plan: FlowPlan,
) -> Likelihood:
    """Of drawn trajectories, differentiable in the parameters."""
    return rollout.likelihood(
        flow_policy(policy),
        params,
        inputs,
        log_temperature,
        found.op,
        found.device,
        num_devices=plan.num_devices,
    )


def real_steps(found: Trajectories) -> jax.Array:
    """bool[N, O], False for padding."""
    return found.op < found.op.shape[1]


def speedups(inputs: FlowInputs, makespan: jax.Array | np.ndarray) -> jax.Array:
    """float[N]: the sum of the durations over each makespan; 1 where a graph takes no time."""
    work = jnp.sum(inputs.problem.duration)
    return jnp.where(makespan > 0, work / jnp.maximum(makespan, 1e-30), 1.0)

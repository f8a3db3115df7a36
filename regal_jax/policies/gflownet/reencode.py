"""The paper's network: a temperature-conditioned Topoformer over graph and state, every step.

gflownet_robust_scheduling, 3.3, D and E.1. The heads' logits of ops are for each device (forward)
and for taking the op away (backward); a value of the state, for PPO, is from
the mean of the ops.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from regal_jax.environments.construction import env
from regal_jax.environments.construction.env import PartialSchedule
from regal_jax.policies.gflownet.types import (
    FlowConfig,
    FlowInputs,
    FlowLogits,
    FlowPolicy,
    masked_log_softmax,
)
from regal_jax.policies.networks.message_passing import MLP
from regal_jax.policies.networks.topoformer import Encoder, TemperatureEmbedding


class _Network(nn.Module):
    """float[O, D], float[O], float[]: logits of adding, of taking away, and the state's value."""

    config: FlowConfig

    @nn.compact
    def __call__(self, features, relations, log_temperature):
        config = self.config
        condition = TemperatureEmbedding(config.size, name="temperature")(log_temperature)
        state = Encoder(config, name="encoder")(features, relations, condition)
        forward = MLP(config.size, config.num_devices, zero_last=True, name="forward")(state)
        backward = MLP(config.size, 1, zero_last=True, name="backward")(state)[:, 0]
        real = relations.real[:, None]
        mean = jnp.sum(jnp.where(real, state, 0.0), axis=0) / jnp.maximum(jnp.sum(real), 1)
        return forward, backward, MLP(config.size, 1, zero_last=True, name="flow")(mean)[0]


def policy(config: FlowConfig) -> FlowPolicy:
    """The policy of a configuration with this network."""
    module = _Network(config)

    def init(key, inputs: FlowInputs, num_devices: int):
        state = env.empty(inputs.problem, num_devices)
        return module.init(key, _features(inputs, state), inputs.relations, jnp.float32(0.0))

    def logits(params, log_temperature, inputs: FlowInputs, state: PartialSchedule):
        features = _features(inputs, state)
        found: Any = module.apply(params, features, inputs.relations, log_temperature)
        adding, taking, flow = found
        valid = env.ready(inputs.problem, state)[:, None]
        removable = env.removable(state)
        return FlowLogits(
            op=jnp.arange(len(features)),
            forward=masked_log_softmax(adding, valid & jnp.ones_like(removable)),
            backward=masked_log_softmax(taking[state.last], removable),
            flow=flow,
        )

    def encode(params, inputs, log_temperature):
        return log_temperature

    return FlowPolicy(init, encode, logits, config.symmetric)


def _features(inputs: FlowInputs, state: PartialSchedule) -> jax.Array:
    """float32[O, F + 4 + D]: of the graph, and of the state (E.1): the start time in the unit of
    the durations' mean (-1 if not scheduled), the device, and whether the op can be added, can be
    taken away, and is in the schedule."""
    problem = inputs.problem
    scheduled = state.device >= 0
    mean = jnp.sum(problem.duration) / jnp.maximum(problem.num_ops, 1)
    unit = jnp.where(mean > 0, mean, 1.0)  # transfers take time even where ops take none
    start = jnp.where(scheduled, state.start / unit, -1.0)
    device = jax.nn.one_hot(state.device, len(state.last))
    places = jnp.arange(len(scheduled))[:, None] == state.last
    taken = jnp.any(places & env.removable(state), axis=1)
    flags = jnp.stack([env.ready(problem, state), taken, scheduled], axis=1)
    columns = [inputs.features, start[:, None], device, flags]
    return jnp.concatenate(columns, axis=1).astype(jnp.float32)

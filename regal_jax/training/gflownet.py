"""One update of a generative flow network for scheduling (gflownet_robust_scheduling, C and E.1).

One graph, one temperature, trajectories drawn from the forward policy itself; or several graphs,
each at a temperature of its own (ours).
"""

import dataclasses
import functools
import math
from typing import Any, Literal

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from regal_jax import registry
from regal_jax.errors import OptionError
from regal_jax.policies.gflownet.policy import FlowConfig, FlowInputs
from regal_jax.policies.gflownet.rollout import Trajectories
from regal_jax.policies.networks.message_passing import MLP
from regal_jax.policies.networks.topoformer import Encoder, TemperatureEmbedding
from regal_jax.training import flow, trainer
from regal_jax.training.flow import FlowBatch, FlowPlan
from regal_jax.training.flow_objectives import OBJECTIVES, Flows, log_reward
from regal_jax.training.trainer import Learner, TrainState

METRICS = ("loss", "speedup", "best_speedup", "temperature", "gradient_norm")
FlowLoss = Literal["log_partition_variance", "damped_variance", "trajectory_balance"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlowTraining(FlowPlan):
    """Hyperparameters; the defaults are the paper's, where it has them.

    Attributes:
      loss: see ``flow_objectives``; the paper's is log_partition_variance.
      problems: graphs that an update sees, each at a temperature of its own and with as many
        trajectories; the paper's is one. The gradient is that of the mean loss.
      min_temperature, max_temperature: of the reward, log-uniform in between (3.3).
      test_temperature: at which schedules are drawn for validation, as at inference (E.1).
      final_rate: what is left of the learning rate at the last step (ours; 1 doesn't decay). The
        last parameters are the result, and at a constant rate they swing: in one training the best
        of 1,000 schedules went from a speedup of 2.45 to 2.30 in 250 updates.
    """

    loss: FlowLoss = "log_partition_variance"
    problems: int = 1
    min_temperature: float = 0.01
    max_temperature: float = 1.0
    test_temperature: float = 0.005
    final_rate: float = 1.0

    @property
    def temperatures(self) -> tuple[float, float]:
        return self.min_temperature, self.max_temperature

    @property
    def validation_temperature(self) -> float:
        return self.test_temperature

    @property
    def growing(self) -> tuple[str, ...]:
        return super().growing if self.final_rate == 1 else ()


def learner(policy: FlowConfig, config: FlowTraining) -> Learner:
    """A GFlowNet for ``train_flow``. OptionError for options out of range."""
    if config.loss not in OBJECTIVES:
        raise OptionError(f"loss is {config.loss!r}: one of {', '.join(OBJECTIVES)}")
    if config.problems < 1:
        raise OptionError(f"problems must be at least 1, got {config.problems}")
    low, high = config.min_temperature, config.max_temperature
    if not 0 < low <= high < math.inf or not 0 < config.test_temperature < math.inf:
        raise OptionError(
            "temperatures need 0 < min_temperature <= max_temperature and 0 < test_temperature"
        )
    if not 0 < config.final_rate <= 1:
        raise OptionError(f"final_rate must be in (0, 1], got {config.final_rate}")
    config = dataclasses.replace(config, seed=0)  # seeds share compilations

    def init(key, inputs):
        return init_state(key, inputs, policy, config)

    def update(key, state, batch: FlowBatch):
        return train_step(key, state, *batch, policy=policy, config=config)

    return Learner("gflownet", init, update, lambda params: (None, {}), METRICS)


class LogPartition(nn.Module):
    """float[]: log Z of a graph and a temperature, by a Topoformer of its own (appendix B); a sum
    over the ops, since log Z grows with their number."""

    config: FlowConfig

    @nn.compact
    def __call__(self, inputs: FlowInputs, log_temperature: jax.Array) -> jax.Array:
        size = self.config.size
        condition = TemperatureEmbedding(size, name="temperature")(log_temperature)
        state = Encoder(self.config, name="encoder")(inputs.features, inputs.relations, condition)
        each = MLP(size, 1, zero_last=True, name="head")(state)[:, 0]
        return jnp.sum(jnp.where(inputs.relations.real, each, 0.0))


def make_optimizer(config: FlowTraining) -> optax.GradientTransformation:
    """Adam behind a clip of the gradient, its learning rate decaying exponentially."""
    rate = optax.exponential_decay(config.learning_rate, config.steps, config.final_rate)
    return trainer.clipped_adam(config.clip_norm, rate)


@functools.partial(jax.jit, static_argnames=("policy", "config"))
def init_state(key, inputs: FlowInputs, policy: FlowConfig, config: FlowTraining) -> TrainState:
    """Fresh parameters {"policy": ...}, and {"log_partition": ...} for trajectory balance, from the
    shapes of one graph's inputs."""
    policy_key, partition_key = jax.random.split(key)
    params = {"policy": registry.make_policy(policy).init(policy_key, inputs, config.num_devices)}
    if config.loss == "trajectory_balance":
        partition = LogPartition(policy)
        params["log_partition"] = partition.init(partition_key, inputs, jnp.float32(0.0))
    return trainer.new_state(params, make_optimizer(config), selects=False)


@functools.partial(jax.jit, static_argnames=("policy", "config"))
def train_step(
    key: chex.PRNGKey,
    state: TrainState,
    inputs: FlowInputs,
    temperature: jax.Array,
    *,
    policy: FlowConfig,
    config: FlowTraining,
) -> tuple[TrainState, dict[str, jax.Array]]:
    """One update on B graphs, stacked, at temperatures float[B]; the new state and scalar metrics,
    means over the graphs (the temperature's is geometric)."""
    keys, log_temperature = jax.random.split(key, len(temperature)), jnp.log(temperature)

    def draw(key, *problem):
        return flow.drawn(state.params["policy"], key, *problem, policy, config)

    drawn = jax.vmap(draw)(keys, inputs, log_temperature)
    speedup = jax.vmap(flow.speedups)(inputs, drawn.makespan)
    reward = log_reward(speedup, config.num_devices, temperature[:, None])

    def loss(params):
        def one(*problem):
            flows = trajectory_flows(params, *problem, policy, config)
            return OBJECTIVES[config.loss](flows)

        return jnp.mean(jax.vmap(one)(inputs, log_temperature, drawn, reward))

    value, gradient = jax.value_and_grad(loss)(state.params)
    metrics = {
        "loss": value,
        "speedup": jnp.mean(speedup),
        "best_speedup": jnp.mean(jnp.max(speedup, axis=1)),
        "temperature": jnp.exp(jnp.mean(log_temperature)),
        "gradient_norm": optax.global_norm(gradient),
    }
    return trainer.descend(state, gradient, make_optimizer(config)), metrics


def trajectory_flows(
    params: Any,
    inputs: FlowInputs,
    log_temperature: jax.Array,
    drawn: Trajectories,
    reward: jax.Array,
    policy: FlowConfig,
    config: FlowTraining,
) -> Flows:
    """The flows of drawn trajectories of a graph, differentiable in the parameters."""
    own = params["policy"]
    found = flow.likelihood(own, drawn, inputs, log_temperature, policy, config)
    partition = jnp.float32(0.0)
    if config.loss == "trajectory_balance":
        partition = LogPartition(policy).apply(params["log_partition"], inputs, log_temperature)
    return Flows(
        log_forward=found.forward,
        log_backward=found.backward,
        log_reward=reward,
        log_partition=partition,
    )

"""REINFORCE for policies over topological orders (neural_topological_ordering, 4.3, C.1, C.4)."""

import dataclasses
import functools
from typing import Any, Literal, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax

from regal_jax.environments.placement import peak_memory
from regal_jax.environments.placement.list_scheduler import Order
from regal_jax.graphs.batching import GraphArrays
from regal_jax.policies.topological_order.policy import (
    OrderingConfig,
    OrderingInputs,
    flip_signs,
    ordering_policy,
)
from regal_jax.search.orders import sampling

Baseline = Literal["greedy_rollout", "leave_one_out"]


@dataclasses.dataclass(frozen=True)
class OrderingTraining:
    """Hyperparameters of training; the defaults are the paper's (C.1).

    Attributes:
      batch_size: graphs a step. epoch_graphs, epochs: graphs an epoch, and epochs.
      learning_rate, decay: of Adam, in the first epoch, and its factor from epoch to epoch.
      baseline: b(G) of eq. 9. "greedy_rollout" is the paper's (C.4): the cost of the greedy order
        of the parameters that were best on the validation graphs so far. "leave_one_out" is the
        mean cost of the other samples; it needs no second policy (not in the paper).
      samples: orders a graph and step.
      clip_norm: of the gradient's L2 norm (not in the paper); costs are relative to b(G).
      seed: of everything random.
    """

    batch_size: int = 8
    epoch_graphs: int = 1000
    epochs: int = 325
    learning_rate: float = 1e-4
    decay: float = 0.996
    baseline: Baseline = "greedy_rollout"
    samples: int = 1
    clip_norm: float = 1.0
    seed: int = 0

    @property
    def steps_per_epoch(self) -> int:
        return max(1, self.epoch_graphs // self.batch_size)


class OrderingExamples(NamedTuple):
    """Graphs of one padded shape, stacked; N of them.

    Attributes:
      inputs: what the policy sees. graph: what the cost needs.
      reference: float32[N], bytes, a peak to compare with.
    """

    inputs: OrderingInputs
    graph: GraphArrays
    reference: Any


@chex.dataclass(frozen=True)
class OrderingState:
    """Everything that training changes.

    Attributes:
      params: of the policy. baseline: parameters that were best on the validation graphs.
      best: float32[], their mean cost there, relative to the reference.
      optimizer: state of optax. step: int32[].
    """

    params: Any
    baseline: Any
    best: chex.Array
    optimizer: Any
    step: chex.Array


def make_optimizer(config: OrderingTraining) -> optax.GradientTransformation:
    """Adam behind a clip of the gradient; the learning rate decays from epoch to epoch."""
    rate = optax.exponential_decay(
        config.learning_rate, config.steps_per_epoch, config.decay, staircase=True
    )
    return optax.chain(optax.clip_by_global_norm(config.clip_norm), optax.adam(rate))


def init_state(key, inputs: OrderingInputs, policy: OrderingConfig, config: OrderingTraining):
    """An OrderingState with fresh parameters, from the shapes of one graph's inputs."""
    params = ordering_policy(policy).init(key, inputs)
    return with_params(params, config)


def with_params(params: Any, config: OrderingTraining) -> OrderingState:
    """An OrderingState that begins from given parameters."""
    return OrderingState(
        params=params,
        baseline=params,
        best=jnp.float32(jnp.inf),
        optimizer=make_optimizer(config).init(params),
        step=jnp.int32(0),
    )


def sampled(params, key, inputs: OrderingInputs, policy: OrderingConfig, samples: int):
    """int32[B, S, O]: orders of each graph; by the compiled sampler of priorities on CPUs."""
    count = len(inputs.features)
    if policy.decoder == "ar" or jax.default_backend() != "cpu":
        return _sample_on_device(params, jax.random.split(key, count), inputs, policy, samples)
    priority = np.asarray(_priorities(params, inputs, policy))
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    uniforms = rng.random((count, samples, priority.shape[1]))
    return sampling.batch_positions(inputs.relations, priority, uniforms)


def greedy(params, inputs: OrderingInputs, policy: OrderingConfig):
    """int32[B, O]: the greedy order of each graph."""
    if policy.decoder == "ar" or jax.default_backend() != "cpu":
        return _greedy_on_device(params, inputs, policy)
    priority = np.asarray(_priorities(params, inputs, policy))
    return sampling.batch_positions(inputs.relations, priority, None)[:, 0]


def costs(graph: GraphArrays, positions: jax.Array) -> jax.Array:
    """float[..., S]: peak memory in bytes, on one device, of positions int32[..., S, O]."""
    return _costs(graph, positions)


def train_step(
    key: chex.PRNGKey,
    state: OrderingState,
    batch: OrderingExamples,
    *,
    policy: OrderingConfig,
    config: OrderingTraining,
) -> tuple[OrderingState, dict[str, jax.Array]]:
    """One gradient step on a batch of graphs; the new state and scalar metrics.

    With the batch sharded over devices, the compiled parts run on all of them.
    """
    flip_key, sample_key = jax.random.split(key)
    inputs = _flip(flip_key, batch.inputs, policy)
    positions = sampled(state.params, sample_key, inputs, policy, config.samples)
    rollout = None
    if config.baseline == "greedy_rollout":
        rollout = greedy(state.baseline, inputs, policy)
    return _update(state, batch._replace(inputs=inputs), positions, rollout, policy, config)


@functools.partial(jax.jit, static_argnames=("policy", "config"))
def _update(state, batch: OrderingExamples, positions, rollout, policy, config):
    sampled_costs = _costs(batch.graph, positions)
    if rollout is None:
        others = jnp.sum(sampled_costs, axis=1, keepdims=True) - sampled_costs
        baseline = others / (config.samples - 1)
    else:
        baseline = _costs(batch.graph, rollout[:, None])
    advantage = sampled_costs / jnp.maximum(baseline, 1e-30) - 1.0

    def loss(params):
        log_prob = jax.vmap(ordering_policy(policy).log_prob, (None, 0, 0))(
            params, batch.inputs, positions
        )
        return jnp.mean(advantage * log_prob), log_prob

    (_, log_prob), gradient = jax.value_and_grad(loss, has_aux=True)(state.params)
    updates, optimizer = make_optimizer(config).update(gradient, state.optimizer, state.params)
    metrics = {
        "cost": jnp.mean(sampled_costs / batch.reference[:, None]),
        "advantage_std": jnp.std(advantage),
        "log_prob": jnp.mean(log_prob),
        "gradient_norm": optax.global_norm(gradient),
    }
    params = optax.apply_updates(state.params, updates)
    state = dataclasses.replace(state, params=params, optimizer=optimizer, step=state.step + 1)
    return state, metrics


@functools.partial(jax.jit, static_argnames="policy")
def _priorities(params, inputs, policy):
    return jax.vmap(ordering_policy(policy).priorities, (None, 0))(params, inputs)


@functools.partial(jax.jit, static_argnames=("policy", "samples"))
def _sample_on_device(params, keys, inputs, policy, samples):
    one = functools.partial(ordering_policy(policy).sample, count=samples)
    return jax.vmap(one, (None, 0, 0))(params, keys, inputs)


@functools.partial(jax.jit, static_argnames="policy")
def _greedy_on_device(params, inputs, policy):
    return jax.vmap(ordering_policy(policy).greedy, (None, 0))(params, inputs)


@functools.partial(jax.jit, static_argnames="policy")
def _flip(key, inputs, policy):
    keys = jax.random.split(key, len(inputs.features))
    return jax.vmap(functools.partial(flip_signs, dimensions=policy.dimensions))(keys, inputs)


@jax.jit
def _costs(graph: GraphArrays, positions):
    """float[B, S] from positions int32[B, S, O]."""

    def one(graph, position):
        alone = jnp.zeros(len(position), jnp.int32)
        none = jnp.full((len(graph.producer), 1), -1, jnp.int32)
        order = Order(jnp.where(position < graph.num_ops, position, -1), none, graph.num_ops)
        return peak_memory.peak_memory(graph, alone, order, 1)[0]

    return jax.vmap(jax.vmap(one, (None, 0)))(graph, positions)

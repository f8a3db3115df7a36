"""REINFORCE for policies over topological orders (neural_topological_ordering, 4.3, C.1, C.4)."""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from regal_jax import registry
from regal_jax.environments.placement import peak_memory
from regal_jax.environments.placement.list_scheduler import Order
from regal_jax.errors import OptionError
from regal_jax.graphs.batching import GraphArrays
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.policies.topological_order.policy import (
    OrderingConfig,
    OrderingInputs,
    flip_signs,
)
from regal_jax.search.orders import sampling
from regal_jax.training import settings, trainer
from regal_jax.training.ordering_examples import OrderingExamples, batches, epoch_batches
from regal_jax.training.reinforce import leave_one_out
from regal_jax.training.trainer import Batch, EpochGraphs, Learner, PolicyFile, TrainState

Baseline = Literal["greedy_rollout", "leave_one_out"]
Sampler = Literal["native", "device"]

METRICS = ("cost", "advantage_std", "log_prob", "gradient_norm")


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
      sampler: what draws orders. "native" is a compiled kernel on the CPU, the fastest there;
        "device" is JAX's, for accelerators, and the only one for autoregressive policies.
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
    sampler: Sampler = "native"
    seed: int = 0

    @property
    def steps_per_epoch(self) -> int:
        return max(1, self.epoch_graphs // self.batch_size)


def train_ordering(
    epoch_graphs: EpochGraphs,
    validation: Sequence[ComputationGraph],
    *,
    policy: OrderingConfig,
    config: OrderingTraining,
    directory: str | os.PathLike,
    initial_params: Any = None,
    about: dict[str, Any] | None = None,
    on_step: Callable[[int, dict[str, float]], None] = lambda step, metrics: None,
) -> Path:
    """Trains a policy; returns the file of the parameters that were best on ``validation``.

    After each epoch the greedy orders of the validation graphs are compared with those of the best
    parameters so far, which they replace if they are better (C.4), and a checkpoint is written. An
    interrupted run continues from the last one, to the same parameters, see ``trainer.fit``.

    Args:
      epoch_graphs: see EpochGraphs; called in a background thread.
      validation: graphs to choose parameters by.
      policy, config: what to train, and how.
      directory: gets ``checkpoints/``, ``metrics.csv``, ``config.json`` and ``best.policy``.
      initial_params: to begin from, fresh ones by default.
      about: goes into the policy file.
      on_step: called with (step, metrics) for each step.
    """
    _check(validation, config)
    mesh = trainer.device_mesh(config.batch_size)
    held_out = list(batches(validation, policy, config.batch_size))
    file = Path(directory) / "best.policy"
    trainer.fit(
        learner(held_out, policy, config, mesh, initial_params),
        functools.partial(_batches, epoch_graphs, policy, config),
        directory,
        example=jax.tree.map(lambda leaf: leaf[0], held_out[0].inputs),
        seed=config.seed,
        policy=PolicyFile(file, policy, {**(about or {}), "system": "topoformer"}),
        hyperparameters={
            "policy": policy,
            "training": config,
            "validation_data": settings.graphs_fingerprint(validation),
            "initial_params": settings.arrays_fingerprint(initial_params),
            **(about or {}),
        },
        may_grow=["training.epochs"],
        on_step=on_step,
    )
    return file


def learner(
    held_out: Sequence[OrderingExamples],
    policy: OrderingConfig,
    config: OrderingTraining,
    mesh: Mesh,
    initial_params: Any = None,
) -> Learner:
    """REINFORCE for ``trainer.fit``, its batches shared by the devices of a mesh."""
    on_host = uses_kernel(policy, config.sampler)

    def init(key, inputs):
        return init_state(key, inputs, policy, config, initial_params)

    def update(key, state, batch: OrderingExamples):
        if on_host:
            batch = jax.device_put(batch, NamedSharding(mesh, P("graphs")))
        return train_step(key, state, batch, policy=policy, config=config)

    def validate(params):
        cost = validation_cost(params, held_out, policy, sampler=config.sampler)
        return cost, {"validation_cost": cost}

    return Learner(
        "topoformer",
        init,
        update,
        validate,
        METRICS,
        ("validation_cost",),
        traceable=not on_host,
        validates_first=True,
        mesh=mesh,
    )


def validation_cost(
    params: Any,
    held_out: Sequence[OrderingExamples],
    policy: OrderingConfig,
    *,
    sampler: Sampler = "native",
) -> float:
    """Mean peak of the greedy orders, relative to the best of random orders."""
    found = []
    for batch in held_out:
        positions = greedy(params, batch.inputs, policy, sampler=sampler)[:, None]
        found.append(np.asarray(costs(batch.graph, positions))[:, 0] / batch.reference)
    return float(np.mean(np.concatenate(found)))


def make_optimizer(config: OrderingTraining) -> optax.GradientTransformation:
    """Adam behind a clip of the gradient; the learning rate decays from epoch to epoch."""
    rate = optax.exponential_decay(
        config.learning_rate, config.steps_per_epoch, config.decay, staircase=True
    )
    return trainer.clipped_adam(config.clip_norm, rate)


def init_state(
    key: chex.PRNGKey,
    inputs: OrderingInputs,
    policy: OrderingConfig,
    config: OrderingTraining,
    params: Any = None,
) -> TrainState:
    """Given parameters, or fresh ones, from the shapes of one graph's inputs."""
    if params is None:
        params = registry.make_policy(policy).init(key, inputs)
    return trainer.new_state(params, make_optimizer(config))


def uses_kernel(policy: OrderingConfig, sampler: Sampler) -> bool:
    """Whether orders are drawn by the compiled kernel, outside jit."""
    return sampler == "native" and policy.decoder != "ar"


def sampled(
    params: Any,
    key: chex.PRNGKey,
    inputs: OrderingInputs,
    policy: OrderingConfig,
    samples: int,
    *,
    sampler: Sampler = "native",
):
    """int32[B, S, O]: orders of each graph."""
    count = len(inputs.features)
    if not uses_kernel(policy, sampler):
        return _sample_on_device(params, jax.random.split(key, count), inputs, policy, samples)
    priority = np.asarray(_priorities(params, inputs, policy))
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    uniforms = rng.random((count, samples, priority.shape[1]))
    return sampling.batch_positions(inputs.relations, priority, uniforms)


def greedy(
    params: Any, inputs: OrderingInputs, policy: OrderingConfig, *, sampler: Sampler = "native"
):
    """int32[B, O]: the greedy order of each graph."""
    if not uses_kernel(policy, sampler):
        return _greedy_on_device(params, inputs, policy)
    priority = np.asarray(_priorities(params, inputs, policy))
    return sampling.batch_positions(inputs.relations, priority, None)[:, 0]


def costs(graph: GraphArrays, positions: jax.Array) -> jax.Array:
    """float[..., S]: peak memory in bytes, on one device, of positions int32[..., S, O]."""
    return _costs(graph, positions)


def train_step(
    key: chex.PRNGKey,
    state: TrainState,
    batch: OrderingExamples,
    *,
    policy: OrderingConfig,
    config: OrderingTraining,
) -> tuple[TrainState, dict[str, jax.Array]]:
    """One gradient step on a batch of graphs; the new state and scalar metrics.

    With the batch sharded over devices, the compiled parts run on all of them.
    """
    flip_key, sample_key = jax.random.split(key)
    inputs = _flip(flip_key, batch.inputs, policy)
    positions = sampled(
        state.params, sample_key, inputs, policy, config.samples, sampler=config.sampler
    )
    rollout = None
    if config.baseline == "greedy_rollout":
        rollout = greedy(state.best_params, inputs, policy, sampler=config.sampler)
    return _update(state, batch._replace(inputs=inputs), positions, rollout, policy, config)


@functools.partial(jax.jit, static_argnames=("policy", "config"))
def _update(state, batch: OrderingExamples, positions, rollout, policy, config):
    sampled_costs = _costs(batch.graph, positions)
    if rollout is None:
        baseline = leave_one_out(sampled_costs)
    else:
        baseline = _costs(batch.graph, rollout[:, None])
    advantage = sampled_costs / jnp.maximum(baseline, 1e-30) - 1.0

    def loss(params):
        log_prob = jax.vmap(registry.make_policy(policy).log_prob, (None, 0, 0))(
            params, batch.inputs, positions
        )
        return jnp.mean(advantage * log_prob), log_prob

    (_, log_prob), gradient = jax.value_and_grad(loss, has_aux=True)(state.params)
    metrics = {
        "cost": jnp.mean(sampled_costs / batch.reference[:, None]),
        "advantage_std": jnp.std(advantage),
        "log_prob": jnp.mean(log_prob),
        "gradient_norm": optax.global_norm(gradient),
    }
    return trainer.descend(state, gradient, make_optimizer(config)), metrics


@functools.partial(jax.jit, static_argnames="policy")
def _priorities(params, inputs, policy):
    return jax.vmap(registry.make_policy(policy).priorities, (None, 0))(params, inputs)


@functools.partial(jax.jit, static_argnames=("policy", "samples"))
def _sample_on_device(params, keys, inputs, policy, samples):
    one = functools.partial(registry.make_policy(policy).sample, count=samples)
    return jax.vmap(one, (None, 0, 0))(params, keys, inputs)


@functools.partial(jax.jit, static_argnames="policy")
def _greedy_on_device(params, inputs, policy):
    return jax.vmap(registry.make_policy(policy).mode, (None, 0))(params, inputs)


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


def _batches(
    epoch_graphs: EpochGraphs,
    policy: OrderingConfig,
    config: OrderingTraining,
    step: int,
    epoch: int,
) -> Iterator[Batch]:
    """The batches of all epochs from one on, each epoch made while the one before is trained on."""
    epochs = (
        _epoch(epoch_graphs, number, policy, config) for number in range(epoch, config.epochs)
    )
    for examples in trainer.ahead(epochs):
        for index, batch in enumerate(examples, 1):
            yield Batch(batch, index == len(examples))


def _epoch(
    epoch_graphs: EpochGraphs, epoch: int, policy: OrderingConfig, config: OrderingTraining
) -> list[OrderingExamples]:
    """The batches of an epoch, a function of (seed, epoch)."""
    return epoch_batches(
        epoch_graphs(epoch),
        policy,
        seed=(config.seed, epoch),
        batch_size=config.batch_size,
        count=config.steps_per_epoch,
    )


def _check(validation: Sequence[ComputationGraph], config: OrderingTraining) -> None:
    if not validation:
        raise OptionError("no validation graphs")
    if config.baseline == "leave_one_out" and config.samples < 2:
        raise OptionError("the leave_one_out baseline needs at least two samples")

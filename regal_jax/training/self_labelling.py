"""Self-labelling (Corsini et al. 2024, "Self-labeling the job shop scheduling problem"): of many
drawn schedules of a graph the best is imitated, choice by choice.

No labels are needed, and no rewards are compared between graphs. As the policy gets better, so do
the schedules that it imitates.
"""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from regal_jax import registry
from regal_jax.environments.choosing.choices import Choices, Choosing
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.training import settings, trainer
from regal_jax.training.trainer import Batch, EpochGraphs, Learner, PolicyFile, TrainState

METRICS = ("cost", "best_cost", "loss", "agreement", "gradient_norm")
"""Costs are over lower bounds: the samples' mean, and the least; agreement is the part of
choices in which the most likely op is the one that is imitated."""
VALIDATION = ("validation_cost", "validation_greedy")
"""The same of validation graphs: the best of the samples, which parameters are chosen by, and the
most likely schedule."""


@dataclasses.dataclass(frozen=True)
class SelfLabelling:
    """Hyperparameters.

    Attributes:
      epochs: each ends with a validation. batch_size: graphs a step.
      decay_epochs: in which the learning rate falls to zero, however many of them are trained.
      samples: drawn schedules of a graph and step; the paper has 256.
      passes: gradients of a step, each of so many ``choices``, drawn of those of its graphs.
      learning_rate: of Adam, falling to zero as a cosine. clip_norm: of the gradient.
      validation_samples: of a validation graph.
      seed: of everything random.
    """

    epochs: int = 40
    decay_epochs: int = 40
    batch_size: int = 8
    samples: int = 128
    passes: int = 8
    choices: int = 1024
    learning_rate: float = 1e-3
    clip_norm: float = 1.0
    validation_samples: int = 64
    seed: int = 0


Improve = Callable[[ComputationGraph, np.ndarray], np.ndarray]
"""(graph, order) -> an order that is no worse."""


class Example(NamedTuple):
    """A graph to train on: where its choices are made, what is read of it, its lower bound."""

    graph: ComputationGraph
    environment: Choosing
    columns: Any
    bound: float


def train_choosing(
    environment: Choosing,
    graphs: EpochGraphs,
    validation: Sequence[ComputationGraph],
    *,
    epoch_graphs: int,
    policy: Any,
    config: SelfLabelling,
    directory: str | os.PathLike,
    about: dict[str, Any],
    improve: Improve | None = None,
    on_step: Callable[[int, dict[str, float]], None] = lambda step, metrics: None,
) -> Path:
    """Trains a policy; returns the file of the parameters that were best on ``validation``.

    An interrupted run, or one that is given more epochs, goes on from its last checkpoint, see
    ``trainer.fit``.

    Args:
      environment: of the choices. graphs: epoch -> its graphs, so many as ``epoch_graphs``.
      validation: graphs to choose parameters by.
      policy, config: what to train, and how.
      directory: gets ``checkpoints/``, ``metrics.csv``, ``config.json`` and ``best.policy``.
      about: goes into the policy file.
      improve: of the best schedule drawn, before it is imitated (ours).
      on_step: called with (step, metrics) for each step.

    Raises:
      OptionError: without validation graphs, and if training diverges.
    """
    if not validation:
        raise OptionError("no validation graphs")
    file, steps = Path(directory) / "best.policy", -(-epoch_graphs // config.batch_size)
    about = about | {
        "epoch_graphs": epoch_graphs,
        "validation": settings.graphs_fingerprint(validation),
    }
    trainer.fit(
        learner(environment, validation, policy, config, steps, improve),
        functools.partial(_batches, environment, graphs, config),
        directory,
        example=None,
        seed=config.seed,
        policy=PolicyFile(file, policy, about | {"training": dataclasses.asdict(config)}),
        hyperparameters={"policy": policy, "training": config, **about},
        may_grow=["training.epochs"],
        on_step=on_step,
    )
    return file


def example(environment: Choosing, graph: ComputationGraph) -> Example:
    """A graph as kernels read it."""
    return Example(
        graph, environment, environment.columns(graph), max(environment.bound(graph), 1e-30)
    )


def learner(
    environment: Choosing,
    validation: Sequence[ComputationGraph],
    policy: Any,
    config: SelfLabelling,
    epoch_steps: int,
    improve: Improve | None = None,
) -> Learner:
    """Self-labelling for ``trainer.fit``, on the host: samples are compiled kernels'."""
    held_out = [example(environment, graph) for graph in validation]
    updates = config.decay_epochs * epoch_steps * config.passes
    made = registry.make_policy(policy)
    schedule = optax.cosine_decay_schedule(config.learning_rate, updates)
    optimizer = trainer.clipped_adam(config.clip_norm, schedule)

    def init(key, _) -> TrainState:
        return trainer.new_state(made.init(key), optimizer)

    @jax.jit
    def descend(state: TrainState, rows, counts, chosen):
        (loss, agreement), gradient = jax.value_and_grad(_loss, has_aux=True)(
            state.params, made.log_prob, rows, counts, chosen
        )
        numbers = loss, agreement, optax.global_norm(gradient)
        state = trainer.descend(state, gradient, optimizer)
        return state, dict(zip(METRICS[2:], numbers, strict=True))

    def update(key, state: TrainState, batch: Sequence[Example]):
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        network = made.network(jax.device_get(state.params))
        found = [label(one, network, config, rng, improve) for one in batch]
        labels, costs = zip(*found, strict=True)
        some, begin, numbers = joined(labels), state.step, dict.fromkeys(METRICS[2:], 0.0)
        for _ in range(config.passes if len(some.counts) else 0):
            rows = rng.integers(len(some.counts), size=config.choices)
            state, numbers = descend(state, *(column[rows] for column in some))
        metrics = {"cost": np.mean(costs), "best_cost": np.mean([one.min() for one in costs])}
        return trainer.changed(state, step=begin + 1), metrics | jax.device_get(numbers)

    def validate(params):
        network = made.network(jax.device_get(params))
        counts = config.validation_samples, 0
        best, greedy = (
            float(np.mean([drawn(one, network, count) for one in held_out])) for count in counts
        )
        return best, dict(zip(VALIDATION, (best, greedy), strict=True))

    return Learner("self_labelling", init, update, validate, METRICS, VALIDATION, traceable=False)


def label(
    one: Example,
    network,
    config: SelfLabelling,
    rng: np.random.Generator,
    improve: Improve | None = None,
) -> tuple[Choices, np.ndarray]:
    """(the choices of the best of the drawn schedules, improved, all their costs)."""
    seeds = rng.integers(2**63, size=config.samples).astype(np.uint64)
    orders, costs = one.environment.drawn(one.columns, network, seeds, 1.0)
    best = orders[costs.argmin()]
    best = best if improve is None else improve(one.graph, best)
    return one.environment.choices(one.columns, best), costs / one.bound


def joined(labels: Sequence[Choices]) -> Choices:
    """All choices, with no more columns of rows than the next power of two needs."""
    rows, counts, chosen = (np.concatenate(column) for column in zip(*labels, strict=True))
    width = 1 << int(counts.max(initial=2) - 1).bit_length()
    return Choices(rows[:, :width], counts, chosen)


def drawn(one: Example, network, samples: int) -> float:
    """The cost of the best of so many samples, 0 for the most likely schedule; the same noise for
    all parameters."""
    seeds = np.arange(max(samples, 1), dtype=np.uint64)
    costs = one.environment.drawn(one.columns, network, seeds, 1.0 if samples else 0.0)[1]
    return float(costs.min()) / one.bound


def _loss(params, log_prob, rows, counts, chosen):
    """(mean cross entropy, agreement)."""
    found = jax.vmap(log_prob, (None, 0, 0))(params, rows, counts)
    likely = jnp.take_along_axis(found, chosen[:, None], axis=1)
    return -jnp.mean(likely), jnp.mean(jnp.argmax(found, axis=1) == chosen)


def _batches(
    environment: Choosing, graphs: EpochGraphs, config: SelfLabelling, step: int, first: int
) -> Iterator[Batch]:
    """The batches of all epochs from the first on."""
    for epoch in range(first, config.epochs):
        some = [example(environment, graph) for graph in graphs(epoch)]
        for begin in range(0, len(some), config.batch_size):
            batch = some[begin : begin + config.batch_size]
            yield Batch(batch, begin + config.batch_size >= len(some))

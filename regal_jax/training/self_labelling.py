"""Self-labelling (Corsini et al. 2024, "Self-labeling the job shop scheduling problem"): of many
drawn schedules of a graph the best is imitated, choice by choice.

No labels are needed, and no rewards are compared between graphs. As the policy gets better, so do
the schedules that it imitates.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from regal_jax import registry
from regal_jax.environments.choosing.choices import Choices
from regal_jax.environments.choosing.kernel import Network
from regal_jax.training import trainer
from regal_jax.training.choosing import VALIDATION, Example, validated
from regal_jax.training.trainer import Learner, TrainState

METRICS = ("cost", "best_cost", "loss", "agreement", "gradient_norm")
"""Costs are over lower bounds: the samples' mean, and the least; agreement is the part of
choices in which the most likely op is the one that is imitated."""


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


def learner(
    policy: Any, config: SelfLabelling, held_out: Sequence[Example], epoch_steps: int
) -> Learner:
    """Self-labelling for ``trainer.fit``, on the host: samples are compiled kernels'."""
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
        found = [label(one, network, config, rng) for one in batch]
        labels, costs = zip(*found, strict=True)
        some, begin, numbers = joined(labels), state.step, dict.fromkeys(METRICS[2:], 0.0)
        for _ in range(config.passes if len(some.counts) else 0):
            rows = rng.integers(len(some.counts), size=config.choices)
            state, numbers = descend(state, *(column[rows] for column in some))
        metrics = {"cost": np.mean(costs), "best_cost": np.mean([one.min() for one in costs])}
        return trainer.changed(state, step=begin + 1), metrics | jax.device_get(numbers)

    def validate(params):
        network = made.network(jax.device_get(params))
        return validated(held_out, network, config.validation_samples)

    return Learner("self_labelling", init, update, validate, METRICS, VALIDATION, traceable=False)


def label(
    one: Example, network: Network, config: SelfLabelling, rng: np.random.Generator
) -> tuple[Choices, np.ndarray]:
    """(the choices of the best of the drawn schedules, all their costs)."""
    seeds = rng.integers(2**63, size=config.samples).astype(np.uint64)
    orders, costs = one.environment.drawn(one.columns, network, seeds, 1.0)
    return one.environment.choices(one.columns, orders[costs.argmin()]), costs / one.bound


def joined(labels: Sequence[Choices]) -> Choices:
    """All choices, with no more columns of rows than the next power of two needs."""
    rows, counts, chosen = (np.concatenate(column) for column in zip(*labels, strict=True))
    width = 1 << int(counts.max(initial=2) - 1).bit_length()
    return Choices(rows[:, :width], counts, chosen)


def _loss(params, log_prob, rows, counts, chosen):
    """(mean cross entropy, agreement)."""
    found = jax.vmap(log_prob, (None, 0, 0))(params, rows, counts)
    likely = jnp.take_along_axis(found, chosen[:, None], axis=1)
    return -jnp.mean(likely), jnp.mean(jnp.argmax(found, axis=1) == chosen)

"""A head start for REGAL: copy the best of a few simple action vectors (not in the paper).

REINFORCE has one number to learn thousands of choices from. Here every training graph tries the
actions that follow its incumbent's placement and order more or less closely, or not at all, and
the policy learns by maximum likelihood to choose what was best. It sees the incumbent among its
features ("incumbent" feature set), so it learns when to follow it.
"""

import functools
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from regal_jax.graphs.features.placement import PolicyInputs
from regal_jax.policies.regal.beta_mutants import ActionSpace
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.training import regal_examples, settings, trainer
from regal_jax.training.regal_examples import Bucket, Examples
from regal_jax.training.regal_search import steered_cost
from regal_jax.training.trainer import Batch, Learner, PolicyFile

SIMILAR = 1e-9
"""Relative difference of costs from which on one action vector counts as better than another."""

LEARNING_RATE = 5e-4
"""Of imitation, whose gradients are far less noisy than REINFORCE's."""

CHECKPOINT_EVERY = 500
"""Steps."""


class Closeness(NamedTuple):
    """How closely distributions follow an incumbent: levels of mean and variance of A.2.

    Attributes:
      low, high: mean levels of genes that should be small or large; equal not to follow.
      variance: level of their variance.
    """

    low: int
    high: int
    variance: int


def closenesses(levels: int) -> tuple[Closeness, ...]:
    """Not at all (as near uniform as can be), a little, and closely, for k levels."""
    half = levels // 2
    ways = (
        Closeness(half, half, levels // 4),
        Closeness(half - 1, half, levels // 4),
        Closeness(0, levels - 1, levels // 4),
    )
    return tuple(dict.fromkeys(ways))


def scripted_actions(inputs: PolicyInputs, space: ActionSpace) -> list[np.ndarray]:
    """int32[O, A] each: every pair of ways to follow the incumbent's placement and its order."""
    device, position = _incumbent(np.asarray(inputs.nodes), space.num_devices)
    ways = closenesses(space.levels)
    return [
        _actions(device, position, placing, ordering, space)
        for placing, ordering in itertools.product(
            ways if space.placement else ways[:1], ways if space.scheduling else ways[:1]
        )
    ]


def best_scripts(
    bucket: Bucket,
    *,
    regal: RegalConfig,
    evaluations: int,
    seed: int,
    on_progress: Callable[[], None] = lambda: None,
) -> np.ndarray:
    """int32[N, O, A]: for each example the scripted actions whose search ends best."""
    chosen = []
    for row in range(bucket.examples.num_graphs):
        example = bucket.examples.take(np.array(row))
        scripts = np.stack(scripted_actions(example.inputs, regal.space))
        key = jax.random.key(seed)
        costs = np.asarray(_search_costs(key, example, scripts, bucket.model, regal, evaluations))
        chosen.append(scripts[int(np.argmax(costs <= costs.min() * (1 + SIMILAR)))])
        on_progress()
    return np.stack(chosen)


def imitate(
    params: Any,
    buckets: Sequence[Bucket],
    experts: Callable[[], Sequence[np.ndarray]],
    *,
    steps: int,
    regal: RegalConfig,
    evaluations: int,
    batch_size: int,
    seed: int,
    directory: str | os.PathLike,
    on_step: Callable[[int, dict[str, float]], None] = lambda step, metrics: None,
) -> Any:
    """Policy parameters after ``steps`` steps of Adam on -log p(expert's actions) a choice.

    Args:
      params: to begin from.
      experts: makes the actions of ``best_scripts`` for each bucket, if a step is left to do.
      evaluations: those of ``best_scripts``.
      directory: gets ``imitation.policy``, and the folder ``imitation`` of ``trainer.fit``.
      on_step: called with (step, {"loss": nats a choice}) for each step.
    """
    directory = Path(directory)
    state = trainer.fit(
        learner(params, regal),
        functools.partial(_batches, buckets, experts, steps, batch_size, seed),
        directory / "imitation",
        example=None,
        seed=seed,
        policy=PolicyFile(directory / "imitation.policy", regal, {"imitation_steps": steps}),
        hyperparameters={
            "policy": regal,
            "evaluations": evaluations,
            "batch_size": batch_size,
            "seed": seed,
            "steps": steps,
            "first_params": settings.arrays_fingerprint(params),
            "training_data": regal_examples.fingerprint(buckets),
        },
        may_grow=["steps"],
        on_step=on_step,
    )
    return state.params


def learner(params: Any, regal: RegalConfig) -> Learner:
    """Maximum likelihood of experts' actions for ``trainer.fit``, from given parameters."""
    optimizer = optax.adam(LEARNING_RATE)

    def init(key, example):
        return trainer.new_state(params, optimizer, selects=False)

    def update(key, state, data):
        inputs, actions = data

        def loss_of(params):
            log_prob = jax.vmap(regal.policy.log_prob, (None, 0, 0))(params, inputs, actions)
            choices = jnp.sum(inputs.real, axis=1) * regal.space.num_choices
            return -jnp.mean(log_prob / choices)

        loss, gradient = jax.value_and_grad(loss_of)(state.params)
        return trainer.descend(state, gradient, optimizer), {"loss": loss}

    return Learner("imitation", init, update, lambda params: (None, {}), ("loss",))


def _batches(
    buckets: Sequence[Bucket],
    experts: Callable[[], Sequence[np.ndarray]],
    steps: int,
    batch_size: int,
    seed: int,
    first: int,
    epoch: int,
) -> Iterator[Batch]:
    """Batches of (inputs, expert's actions), each a function of (seed, step)."""
    actions = experts() if first < steps else []

    def batch(step: int):
        rng = np.random.default_rng((seed, 1, step))
        which, rows = regal_examples.drawn(rng, buckets, batch_size)
        return buckets[which].examples.take(rows).inputs, actions[which][rows]

    return trainer.stepwise(batch, first, steps, CHECKPOINT_EVERY)


@functools.partial(jax.jit, static_argnames=("model", "regal", "evaluations"))
def _search_costs(key, example: Examples, scripts, model, regal: RegalConfig, evaluations: int):
    """float[S]: what searches with actions int32[S, O, A] find; they share their random numbers."""

    def best(actions):
        return steered_cost(key, model, example.graph, evaluations, example.inputs, actions, regal)

    return jax.vmap(best)(scripts)


def _incumbent(nodes: np.ndarray, num_devices: int) -> tuple[np.ndarray, np.ndarray]:
    """(device int[O], place in the order float[O]) from the last features of the nodes."""
    known = nodes[:, -(num_devices + 2) :]
    return known[:, :num_devices].argmax(axis=1), known[:, num_devices]


def _actions(device, position, placing: Closeness, ordering: Closeness, space: ActionSpace):
    actions = np.zeros((len(device), space.num_choices), np.int32)
    if space.placement:
        for target in range(space.num_devices):
            there = device == target
            actions[:, 2 * target] = np.where(there, placing.high, placing.low)
            actions[:, 2 * target + 1] = placing.variance
    if space.scheduling:
        column = 2 * space.num_devices * space.placement
        steps = ordering.high - ordering.low + 1
        rank = np.minimum(((1.0 - position) * steps).astype(np.int32), steps - 1)
        actions[:, column] = ordering.low + rank
        actions[:, column + 1] = ordering.variance
    return actions

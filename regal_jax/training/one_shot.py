"""REINFORCE for one-shot priority sampling (one_shot_priority_sampling, 3.3 and algorithm 1)."""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax

from regal_jax import registry
from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.policies import base
from regal_jax.policies.one_shot import plackett_luce
from regal_jax.policies.one_shot.policy import OneShotConfig
from regal_jax.policies.topological_order.policy import OrderingInputs, flip_signs
from regal_jax.training import settings, trainer
from regal_jax.training.one_shot_inputs import padded_inputs
from regal_jax.training.reinforce import standardised
from regal_jax.training.trainer import Batch, EpochGraphs, Learner, PolicyFile, TrainState

METRICS = ("cost", "best_cost", "cost_std", "log_prob", "logit_norm", "gradient_norm")
"""Costs are makespans over the graph's lower bound: the samples' mean, least and deviation."""

OneShotBaseline = Literal["standardised", "greedy_rollout"]


@dataclasses.dataclass(frozen=True)
class OneShotTraining:
    """Hyperparameters of training; the defaults are the paper's, where it has them (3.3, F).

    Attributes:
      batch_size: graphs a step; the gradient is their mean.
      epochs: times that all graphs are seen; the paper has 100 for TPC-H, 20 for the others.
      samples: rankings a graph and step, N; the paper has 2000 for TPC-H.
      learning_rate: of Adam (the paper doesn't say).
      clip_norm: of the gradient's L2 norm (not in the paper); "inf" for none.
      c_logits: weight of the logits' mean square (eq. 12).
      epsilon: least deviation that costs are divided by (eq. 13), in the unit of the makespans as
        they are: the graphs' own.
      baseline: "standardised" is eq. 13. "greedy_rollout" is the ablation of appendix H: costs less
        that of the greedy schedule of the parameters that were best on the validation graphs so
        far, in the graphs' unit.
      validation_samples: schedules are compared by the best of so many samples, 0: by the greedy
        one.
      seed: of everything random.
    """

    batch_size: int = 1
    epochs: int = 20
    samples: int = 1000
    learning_rate: float = 1e-4
    clip_norm: float = 1.0
    c_logits: float = 0.001
    epsilon: float = 0.1
    baseline: OneShotBaseline = "standardised"
    validation_samples: int = 0
    seed: int = 0


class OneShotExample(NamedTuple):
    """A graph to train on: what the policy sees of it, padded, and what a schedule costs."""

    inputs: OrderingInputs
    problem: MachineProblem


def train_one_shot(
    graphs: Sequence[ComputationGraph] | EpochGraphs,
    validation: Sequence[ComputationGraph],
    *,
    policy: OneShotConfig,
    config: OneShotTraining,
    directory: str | os.PathLike,
    initial_params: Any = None,
    about: dict[str, Any] | None = None,
    on_step: Callable[[int, dict[str, float]], None] = lambda step, metrics: None,
) -> Path:
    """Trains a policy; returns the file of the parameters that were best on ``validation``.

    After each epoch the validation graphs are scheduled, and a checkpoint is written. An
    interrupted run continues from the last one, to the same parameters, see ``trainer.fit``.

    Args:
      graphs: all training graphs, each of which an epoch sees once; or see EpochGraphs (called in a
        background thread).
      validation: graphs to choose parameters by.
      policy, config: what to train, and how.
      directory: gets ``checkpoints/``, ``metrics.csv``, ``config.json`` and ``best.policy``.
      initial_params: to begin from, fresh ones by default.
      about: goes into the policy file.
      on_step: called with (step, metrics) for each step.

    Raises:
      OptionError: without graphs, for options out of range, and if training diverges.
      GraphError: for a graph that isn't a machine problem.
    """
    _check(validation, config)
    epoch_graphs = graphs if callable(graphs) else lambda epoch: graphs
    held_out = [prepared(graph, policy) for graph in validation]
    file = Path(directory) / "best.policy"
    trainer.fit(
        learner(held_out, policy, config, initial_params),
        functools.partial(_batches, epoch_graphs, policy, config),
        directory,
        example=held_out[0].inputs,
        seed=config.seed,
        policy=PolicyFile(file, policy, {**(about or {}), "system": "one_shot"}),
        hyperparameters={
            "policy": policy,
            "training": config,
            "training_data": None if callable(graphs) else settings.graphs_fingerprint(graphs),
            "validation_data": settings.graphs_fingerprint(validation),
            "initial_params": settings.arrays_fingerprint(initial_params),
            **(about or {}),
        },
        may_grow=["training.epochs"],
        on_step=on_step,
    )
    return file


def learner(
    held_out: Sequence[OneShotExample],
    policy: OneShotConfig,
    config: OneShotTraining,
    initial_params: Any = None,
) -> Learner:
    """REINFORCE for ``trainer.fit``, on the host: samples and their costs are compiled kernels'."""

    def init(key, inputs):
        return init_state(key, inputs, policy, config, initial_params)

    def update(key, state, batch):
        return train_step(key, state, batch, policy=policy, config=config)

    def validate(params):
        cost = validation_cost(params, held_out, policy, config)
        return cost, {"validation_cost": cost}

    return Learner(
        "one_shot",
        init,
        update,
        validate,
        METRICS,
        ("validation_cost",),
        traceable=False,
        validates_first=True,
    )


def prepared(graph: ComputationGraph, policy: OneShotConfig) -> OneShotExample:
    """A graph for training, padded to one of few sizes, so that few compilations are needed."""
    problem = MachineProblem(graph, generation=policy.generation)
    return OneShotExample(padded_inputs(graph, policy), problem)


def validation_cost(
    params: Any,
    held_out: Sequence[OneShotExample],
    policy: OneShotConfig,
    config: OneShotTraining,
) -> float:
    """Mean over the graphs of the makespan relative to the lower bound, 1 where both are 0."""
    found = []
    for example in held_out:
        logits = op_logits(params, example, policy)
        priorities = logits[None]
        if config.validation_samples:
            rng = np.random.default_rng(0)  # the same noise, whatever the parameters
            priorities, _ = plackett_luce.draw(rng, logits, config.validation_samples)
        makespan = example.problem.makespans(priorities).min()
        bound = example.problem.lower_bound
        found.append(makespan / bound if bound > 0 else 1.0)
    return float(np.mean(found))


def make_optimizer(config: OneShotTraining) -> optax.GradientTransformation:
    """Adam behind a clip of the gradient."""
    return trainer.clipped_adam(config.clip_norm, config.learning_rate)


def init_state(
    key: chex.PRNGKey,
    inputs: OrderingInputs,
    policy: OneShotConfig,
    config: OneShotTraining,
    params: Any = None,
) -> TrainState:
    """Given parameters, or fresh ones, from the shapes of one graph's inputs."""
    if params is None:
        params = registry.make_policy(policy).init(key, inputs)
    return trainer.new_state(params, make_optimizer(config))


def op_logits(params: Any, example: OneShotExample, policy: OneShotConfig) -> np.ndarray:
    """float32[O]: the logits of a graph, without padding. OptionError if they aren't finite."""
    found = base.call(policy, "encode", params, example.inputs)
    found = np.asarray(found)[: example.problem.num_ops]
    if not np.all(np.isfinite(found)):
        raise OptionError("logits are not finite: training has diverged; a lower learning_rate?")
    return found


def train_step(
    key: chex.PRNGKey,
    state: TrainState,
    batch: Sequence[OneShotExample],
    *,
    policy: OneShotConfig,
    config: OneShotTraining,
) -> tuple[TrainState, dict[str, float]]:
    """One gradient step on a few graphs, one after the other; the new state and scalar metrics."""
    gradient, metrics = None, []
    for index, example in enumerate(batch):
        one = jax.random.fold_in(key, index)
        found, numbers = _one_graph(one, state, example, policy, config)
        gradient = found if gradient is None else jax.tree.map(jnp.add, gradient, found)
        metrics.append(numbers)
    state, norm = _update(state, gradient, len(batch), config)
    means = {name: float(np.mean([row[name] for row in metrics])) for name in metrics[0]}
    return state, {**means, "gradient_norm": float(norm)}


def _one_graph(key, state: TrainState, example: OneShotExample, policy, config):
    """(gradient of a graph's loss, metrics)."""
    flip_key, sample_key = jax.random.split(key)
    example = example._replace(inputs=_flip(flip_key, example.inputs, policy))
    rng = np.random.default_rng(np.asarray(jax.random.key_data(sample_key)))
    logits = op_logits(state.params, example, policy)
    priorities, rankings = plackett_luce.draw(rng, logits, config.samples)
    makespans = example.problem.makespans(priorities)
    if config.baseline == "standardised":
        advantage = standardised(makespans, config.epsilon)
    else:
        rollout = op_logits(state.best_params, example, policy)[None]
        advantage = makespans - float(example.problem.makespans(rollout)[0])
    gradient, numbers = _gradient(
        state.params,
        example.inputs,
        _padded(rankings, len(example.inputs.features)),
        advantage.astype(np.float32),
        policy,
        config.c_logits,
    )
    relative = makespans / max(example.problem.lower_bound, 1e-30)
    metrics = {"cost": relative.mean(), "best_cost": relative.min(), "cost_std": relative.std()}
    return gradient, {**metrics, **jax.device_get(numbers)}


def _padded(rankings: np.ndarray, num_ops: int) -> np.ndarray:
    """int32[N, num_ops]: rankings in which padding is last."""
    count, first = rankings.shape
    rest = np.arange(first, num_ops, dtype=np.int32)
    return np.concatenate([rankings, np.tile(rest, (count, 1))], axis=1)


@functools.partial(jax.jit, static_argnames="policy")
def _flip(key, inputs, policy):
    return flip_signs(key, inputs, policy.dimensions)


@functools.partial(jax.jit, static_argnames="policy")
def _gradient(params, inputs: OrderingInputs, rankings, advantage, policy, c_logits):
    """Lines 7 and 8 of algorithm 1, of ``_padded`` rankings."""
    num_ops = jnp.sum(inputs.relations.real)

    def loss(params):
        logits = registry.make_policy(policy).encode(params, inputs)
        likelihood = plackett_luce.log_prob(logits, rankings, num_ops)
        norm = jnp.sum(logits**2) / num_ops  # eq. 12; logits of padding are 0
        numbers = {"log_prob": jnp.mean(likelihood), "logit_norm": norm}
        return jnp.mean(advantage * likelihood) + c_logits * norm, numbers

    return jax.grad(loss, has_aux=True)(params)


@functools.partial(jax.jit, static_argnames=("count", "config"))
def _update(state, gradient, count: int, config):
    gradient = jax.tree.map(lambda leaf: leaf / count, gradient)
    return trainer.descend(state, gradient, make_optimizer(config)), optax.global_norm(gradient)


def _batches(
    epoch_graphs: EpochGraphs,
    policy: OneShotConfig,
    config: OneShotTraining,
    step: int,
    first: int,
) -> Iterator[Batch]:
    """The batches of all epochs from the first on.

    The order of graphs is a function of (seed, epoch). Prepared graphs are kept for the next epoch,
    as the eigenvectors among their features take long.
    """
    kept: dict[str, OneShotExample] = {}
    for epoch in range(first, config.epochs):
        graphs = epoch_graphs(epoch)
        if not graphs:
            raise OptionError(f"no training graphs in epoch {epoch}")
        current = {graph.fingerprint for graph in graphs}
        kept = {key: example for key, example in kept.items() if key in current}
        order = np.random.default_rng((config.seed, epoch)).permutation(len(graphs))
        for begin in range(0, len(order), config.batch_size):
            batch = []
            for graph in (graphs[index] for index in order[begin : begin + config.batch_size]):
                if graph.fingerprint not in kept:
                    kept[graph.fingerprint] = prepared(graph, policy)
                batch.append(kept[graph.fingerprint])
            yield Batch(batch, begin + config.batch_size >= len(order))


def _check(validation: Sequence[ComputationGraph], config: OneShotTraining) -> None:
    if not validation:
        raise OptionError("no validation graphs")
    if config.batch_size < 1:
        raise OptionError(f"batch_size is {config.batch_size}, less than 1")
    least = 2 if config.baseline == "standardised" else 1
    if config.samples < least:
        raise OptionError(f"the {config.baseline} baseline needs at least {least} samples a graph")
    if not config.epsilon > 0:
        raise OptionError(f"epsilon is {config.epsilon}, not above 0")

"""The training loop of one-shot priority sampling; it resumes where it stopped."""

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.policies.one_shot.policy import OneShotConfig, draw, greedy, padded_inputs
from regal_jax.training import one_shot as reinforce
from regal_jax.training.one_shot import OneShotExample, OneShotTraining
from regal_jax.training.run_folder import EpochGraphs, ahead, open_run

METRICS = (
    *("cost", "best_cost", "cost_std", "log_prob", "logit_norm", "gradient_norm"),
    "validation_cost",
)
"""Costs are makespans over the graph's lower bound: the samples' mean, least and deviation."""


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
    interrupted run continues from the last one, to the same parameters.

    Args:
      graphs: all training graphs, each of which an epoch sees once; or see EpochGraphs (called in a
        background thread).
      validation: graphs to choose parameters by.
      policy, config: what to train, and how.
      directory: gets ``checkpoints/``, ``metrics.csv`` and ``best.policy``.
      initial_params: to begin from, fresh ones by default.
      about: goes into the policy file.
      on_step: called with (step, metrics) after each step.

    Raises:
      OptionError: without graphs, for options out of range, and if training diverges.
      GraphError: for a graph that isn't a machine problem.
    """
    _check(validation, config)
    epoch_graphs = graphs if callable(graphs) else lambda epoch: graphs
    held_out = [prepared(graph, policy) for graph in validation]
    about = {**(about or {}), "system": "one_shot"}
    init_key, train_key = jax.random.split(jax.random.key(config.seed))
    state = (
        reinforce.init_state(init_key, held_out[0].inputs, policy, config)
        if initial_params is None
        else reinforce.with_params(initial_params, config)
    )
    with open_run(directory, METRICS) as folder:
        state = folder.restored(state)
        if int(state.step) == 0:
            cost = validation_cost(state.params, held_out, policy, config)
            state = folder.keep_better(state, cost, policy, about)
        for batch, is_last in ahead(_batches(epoch_graphs, int(state.epoch), policy, config)):
            key = jax.random.fold_in(train_key, int(state.step))
            state, metrics = reinforce.train_step(key, state, batch, policy=policy, config=config)
            if is_last:
                metrics["validation_cost"] = validation_cost(state.params, held_out, policy, config)
                state = folder.keep_better(state, metrics["validation_cost"], policy, about)
                state = dataclasses.replace(state, epoch=state.epoch + jnp.int32(1))
            folder.log.write(int(state.step), metrics)
            on_step(int(state.step), metrics)
            if is_last:
                folder.save(state)
        return folder.best_policy


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
        scores = reinforce.scores(params, example, policy)
        drawn = greedy(scores)
        if config.validation_samples:
            rng = np.random.default_rng(0)  # the same noise, whatever the parameters
            drawn = draw(rng, scores, config.validation_samples)
        makespan = reinforce.costs(example.problem, drawn).min()
        bound = example.problem.lower_bound
        found.append(makespan / bound if bound > 0 else 1.0)
    return float(np.mean(found))


def _batches(
    epoch_graphs: EpochGraphs, first: int, policy: OneShotConfig, config: OneShotTraining
) -> Iterator[tuple[list[OneShotExample], bool]]:
    """The batches of all epochs from the first on, and whether one is its epoch's last.

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
            yield batch, begin + config.batch_size >= len(order)


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

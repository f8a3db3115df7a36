"""The training loop of policies over the construction of schedules; it resumes where it stopped.

An update sees one graph and, for flow networks, one temperature (gflownet_robust_scheduling, C).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.rewrites.subgraphs import random_subgraph
from regal_jax.policies.gflownet import sampling
from regal_jax.policies.gflownet.policy import FlowConfig, FlowInputs, padded_inputs
from regal_jax.training import checkpoints
from regal_jax.training.flow_plan import FlowPlan, Learner
from regal_jax.training.flow_rollouts import speedups
from regal_jax.training.run_folder import ahead, open_run

MOST_SHAPES = 24
"""Sizes of inputs whose programs are kept. A program of XLA on a CPU takes some 2,000 of the 65,530
memory mappings that Linux gives a process; without room for another one the process dies."""

VALIDATION = ("validation_top_1", "validation_top")
"""Speedup of the best schedule and mean of the best ``validation_top``, means over the graphs."""


def train_flow(
    graphs: Sequence[ComputationGraph],
    validation: Sequence[ComputationGraph],
    *,
    learner: Learner,
    policy: FlowConfig,
    plan: FlowPlan,
    directory: str | os.PathLike,
    about: dict[str, Any] | None = None,
    on_step: Callable[[int, dict[str, float]], None] = lambda step, metrics: None,
) -> Path:
    """Trains a policy; returns the file of its last parameters.

    Nothing is selected by validation: a flow network's aim is a distribution, not the best
    schedules. An interrupted run continues from the last checkpoint, to the same parameters.

    Args:
      graphs: all training graphs, drawn one a step with equal probability.
      validation: graphs whose schedules are looked at after each epoch.
      learner, policy, plan: what to train, and how.
      directory: gets ``checkpoints/``, ``metrics.csv`` and ``last.policy``.
      about: goes into the policy file.
      on_step: called with (step, metrics) after each step.

    Raises:
      OptionError: without graphs, for options out of range, and if training diverges.
    """
    _check(graphs, plan)
    platform = Platform(plan.num_devices)
    init_key, train_key = jax.random.split(jax.random.key(plan.seed))
    held_out = [padded_inputs(graph, platform, policy) for graph in validation]
    first = padded_inputs(graphs[0], platform, policy)
    path = Path(directory) / "last.policy"
    with open_run(directory, (*learner.metrics, *VALIDATION)) as folder:
        fresh = learner.init(init_key, first)
        state = folder.restored(jax.device_put(fresh, jax.local_devices()[0]))
        begin, shapes = int(state.step), set[tuple[int, ...]]()
        for step, inputs in enumerate(ahead(_inputs(graphs, begin, policy, plan)), begin):
            key, rng = jax.random.fold_in(train_key, step), np.random.default_rng((plan.seed, step))
            shapes = _within_limits(shapes, inputs)
            state, found = learner.update(key, state, inputs, rng)
            metrics = {name: float(found[name]) for name in learner.metrics}
            is_last = (step + 1) % plan.epoch_steps == 0 or step + 1 == plan.steps
            if is_last:
                _check_finite(state.params)
                metrics |= validate(state.params["policy"], held_out, learner, policy, plan)
            folder.log.write(step + 1, metrics)
            on_step(step + 1, metrics)
            if is_last:
                facts = {**(about or {}), "system": learner.name, "steps": step + 1}
                checkpoints.save_policy(path, state.params["policy"], policy, about=facts)
                folder.save(state)
    jax.clear_caches()
    return path


def validate(
    params: Any,
    held_out: Sequence[FlowInputs],
    learner: Learner,
    policy: FlowConfig,
    plan: FlowPlan,
) -> dict[str, float]:
    """The means of ``VALIDATION``, with the same random numbers whatever the parameters."""
    best, top = [], []
    for inputs in held_out:
        drawn = sampling.draw(
            jax.random.key(0),
            params,
            inputs,
            learner.test_temperature,
            policy=policy,
            num_devices=plan.num_devices,
            count=plan.validation_samples,
        )
        finish = np.sort(drawn.makespan)[: plan.validation_top]
        speedup = np.asarray(speedups(inputs, finish))
        best.append(speedup[0])
        top.append(speedup.mean())
    if not held_out:
        return {}
    return {"validation_top_1": float(np.mean(best)), "validation_top": float(np.mean(top))}


def _inputs(
    graphs: Sequence[ComputationGraph], first: int, policy: FlowConfig, plan: FlowPlan
) -> Iterator[FlowInputs]:
    """The inputs of every step from the first on, a function of (seed, step); those of whole graphs
    are kept."""
    platform = Platform(plan.num_devices)
    kept: dict[int, FlowInputs] = {}
    for step in range(first, plan.steps):
        rng = np.random.default_rng((plan.seed, step, 1))
        index = int(rng.integers(len(graphs)))
        graph = graphs[index]
        if 0 < plan.min_subgraph < graph.num_ops:
            size = int(rng.integers(plan.min_subgraph, plan.max_subgraph + 1))
            part = random_subgraph(rng, graph, min(size, graph.num_ops))
            yield padded_inputs(part, platform, policy)
            continue
        if index not in kept:
            kept[index] = padded_inputs(graph, platform, policy)
        yield kept[index]


def _within_limits(shapes: set[tuple[int, ...]], inputs: FlowInputs) -> set[tuple[int, ...]]:
    """The sizes that there are programs for, with those of new inputs; beyond ``MOST_SHAPES`` all
    programs are dropped (those in the persistent cache are read again)."""
    arrays = (inputs.features, inputs.relations.senders, inputs.window)
    shape = tuple(len(array) for array in arrays)
    if shape in shapes:
        return shapes
    if len(shapes) == MOST_SHAPES:
        jax.clear_caches()
        return {shape}
    return shapes | {shape}


def _check(graphs: Sequence[ComputationGraph], plan: FlowPlan) -> None:
    if not graphs:
        raise OptionError("no training graphs")
    if plan.steps < 1 or plan.epoch_steps < 1:
        raise OptionError("steps and epoch_steps must be at least 1")
    if plan.trajectories < 1 or plan.validation_samples < 1 or plan.validation_top < 1:
        raise OptionError("trajectories, validation_samples and validation_top must be at least 1")
    if plan.min_subgraph < 0 or plan.max_subgraph < plan.min_subgraph:
        raise OptionError("sub-graphs need 0 <= min_subgraph <= max_subgraph")
    if plan.min_subgraph == 0 < plan.max_subgraph:
        raise OptionError("max_subgraph needs min_subgraph, too; both are 0 for whole graphs")


def _check_finite(params: Any) -> None:
    if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(params)):
        raise OptionError(
            "parameters are not finite: training has diverged; a lower learning_rate?"
        )

"""What trainings of policies over the construction of schedules have in common.

An update sees one graph and, for flow networks, one temperature (gflownet_robust_scheduling, C), or
several of both (ours).
"""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from regal_jax import registry
from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError
from regal_jax.graphs import batching
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.rewrites.subgraphs import random_subgraph
from regal_jax.policies.gflownet import rollout, sampling
from regal_jax.policies.gflownet.policy import (
    FlowConfig,
    FlowInputs,
    flow_inputs,
    padded_inputs,
    padded_sizes,
)
from regal_jax.policies.gflownet.rollout import Likelihood, Trajectories
from regal_jax.training import settings, trainer
from regal_jax.training.trainer import Batch, Learner, PolicyFile

VALIDATION = ("validation_top_1", "validation_top")
"""Speedup of the best schedule and mean of the best ``validation_top``, means over the graphs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlowPlan:
    """Hyperparameters of any such training; the defaults are the paper's, where it has them
    (gflownet_robust_scheduling).

    Attributes:
      num_devices: identical devices, m.
      trajectories: drawn in an update (E.1).
      steps: updates; not in the paper.
      epoch_steps: updates between validations, each with a checkpoint.
      learning_rate: of Adam ("default hyperparameters", E.1).
      clip_norm: of the gradient's L2 norm (ours; at low temperatures the loss is large).
      min_subgraph, max_subgraph: ops of the random sub-graphs to train on (3.3), 25 and 75 in 5.3;
        0 for whole graphs.
      validation_samples, validation_top: schedules drawn of each validation graph, of which the
        best are looked at (section 5).
      seed: of everything random.
    """

    num_devices: int = 4
    trajectories: int = 100
    steps: int = 10_000
    epoch_steps: int = 500
    learning_rate: float = 1e-3
    clip_norm: float = 1.0
    min_subgraph: int = 0
    max_subgraph: int = 0
    validation_samples: int = 1000
    validation_top: int = 100
    seed: int = 0

    @property
    def temperatures(self) -> tuple[float, float]:
        """The least and the highest that updates see, log-uniform in between."""
        return 1.0, 1.0

    @property
    def validation_temperature(self) -> float:
        """At which the policy's schedules are looked at."""
        return 1.0

    @property
    def problems(self) -> int:
        """Graphs that an update sees, each at a temperature of its own."""
        return 1

    @property
    def growing(self) -> tuple[str, ...]:
        """What may be larger when a run is resumed: no rate may depend on it."""
        return ("training.steps",)


class FlowBatch(NamedTuple):
    """What an update sees: B graphs, padded alike, and the reward's temperatures float32[B]."""

    inputs: FlowInputs
    temperature: Any


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
    schedules. An interrupted run continues to the same parameters, see ``trainer.fit``.

    Args:
      graphs: all training graphs, drawn one a step with equal probability.
      validation: graphs whose schedules are looked at after each epoch.
      learner: of ``gflownet`` or ``ppo``, without validation, which is added here.
      policy, plan: what to train, and how.
      directory: gets ``checkpoints/``, ``metrics.csv``, ``config.json`` and ``last.policy``.
      about: goes into the policy file.
      on_step: called with (step, metrics) for each step.

    Raises:
      OptionError: without graphs, for options out of range, and if training diverges.
    """
    _check(graphs, plan)
    platform = Platform(plan.num_devices)
    held_out = [padded_inputs(graph, platform, policy) for graph in validation]
    file = Path(directory) / "last.policy"

    def look(params):
        return None, validate(params["policy"], held_out, policy, plan)

    trainer.fit(
        learner._replace(validate=look, validation=VALIDATION),
        functools.partial(_batches, graphs, policy, plan),
        directory,
        example=padded_inputs(graphs[0], platform, policy),
        seed=plan.seed,
        policy=PolicyFile(
            file, policy, {**(about or {}), "system": learner.name}, lambda params: params["policy"]
        ),
        hyperparameters={
            "policy": policy,
            "training": plan,
            "training_data": settings.graphs_fingerprint(graphs),
            "validation_data": settings.graphs_fingerprint(validation),
            **(about or {}),
        },
        may_grow=plan.growing,
        on_step=on_step,
    )
    return file


def validate(
    params: Any, held_out: Sequence[FlowInputs], policy: FlowConfig, plan: FlowPlan
) -> dict[str, float]:
    """The means of ``VALIDATION``, with the same random numbers whatever the parameters."""
    best, top = [], []
    for inputs in held_out:
        found = sampling.draw(
            jax.random.key(0),
            params,
            inputs,
            plan.validation_temperature,
            policy=policy,
            num_devices=plan.num_devices,
            count=plan.validation_samples,
        )
        finish = np.sort(found.makespan)[: plan.validation_top]
        speedup = np.asarray(speedups(inputs, finish))
        best.append(speedup[0])
        top.append(speedup.mean())
    if not held_out:
        return {}
    return {"validation_top_1": float(np.mean(best)), "validation_top": float(np.mean(top))}


def drawn(
    params: Any,
    key: chex.PRNGKey,
    inputs: FlowInputs,
    log_temperature: jax.Array,
    policy: FlowConfig,
    plan: FlowPlan,
) -> Trajectories:
    """As many trajectories of a policy as the plan asks for."""
    devices, count = plan.num_devices, plan.trajectories
    return sampling.sample(key, params, inputs, log_temperature, policy, devices, count)


def likelihood(
    params: Any,
    found: Trajectories,
    inputs: FlowInputs,
    log_temperature: jax.Array,
    policy: FlowConfig,
    plan: FlowPlan,
) -> Likelihood:
    """Of drawn trajectories, differentiable in the parameters."""
    return rollout.likelihood(
        registry.make_policy(policy),
        params,
        inputs,
        log_temperature,
        found.op,
        found.device,
        num_devices=plan.num_devices,
    )


def real_steps(found: Trajectories) -> jax.Array:
    """bool[N, O], False for padding."""
    return found.op < found.op.shape[1]


def speedups(inputs: FlowInputs, makespan: jax.Array | np.ndarray) -> jax.Array:
    """float[N]: the sum of the durations over each makespan; 1 where a graph takes no time."""
    work = jnp.sum(inputs.problem.duration)
    return jnp.where(makespan > 0, work / jnp.maximum(makespan, 1e-30), 1.0)


def _batches(
    graphs: Sequence[ComputationGraph], policy: FlowConfig, plan: FlowPlan, first: int, epoch: int
) -> Iterator[Batch]:
    """The batches of every step from the first on, each a function of (seed, step)."""
    low, high = np.log(plan.temperatures)

    def batch(step: int) -> FlowBatch:
        rng = np.random.default_rng((plan.seed, step))
        logs = rng.uniform(low, high, plan.problems)
        return FlowBatch(_inputs(graphs, step, policy, plan), np.exp(logs).astype(np.float32))

    return trainer.stepwise(batch, first, plan.steps, plan.epoch_steps)


def _inputs(
    graphs: Sequence[ComputationGraph], step: int, policy: FlowConfig, plan: FlowPlan
) -> FlowInputs:
    """The inputs of a step, stacked, a function of (seed, step)."""
    rng = np.random.default_rng((plan.seed, step, 1))
    drawn = [_drawn_graph(rng, graphs, plan) for _ in range(plan.problems)]
    sizes, platform = padded_sizes(drawn), Platform(plan.num_devices)
    rows = [flow_inputs(graph, platform, policy, *sizes) for graph in drawn]
    return batching.stacked(rows)


def _drawn_graph(rng, graphs: Sequence[ComputationGraph], plan: FlowPlan) -> ComputationGraph:
    """One of the graphs, or a part of it."""
    graph = graphs[int(rng.integers(len(graphs)))]
    if not 0 < plan.min_subgraph < graph.num_ops:
        return graph
    size = int(rng.integers(plan.min_subgraph, plan.max_subgraph + 1))
    return random_subgraph(rng, graph, min(size, graph.num_ops))


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

"""Training of policies that choose: on the schedules that they draw, on the host."""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regal_jax.environments.choosing.choices import Choosing
from regal_jax.environments.choosing.kernel import Network
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.training import settings, trainer
from regal_jax.training.trainer import Batch, EpochGraphs, Learner, PolicyFile

VALIDATION = ("validation_cost", "validation_greedy")
"""Of validation graphs: the best of the samples, which parameters are chosen by, and the most
likely schedule."""


class Example(NamedTuple):
    """A graph to train on: where its choices are made, what is read of it, its lower bound."""

    environment: Choosing
    columns: Any
    bound: float


def train_choosing(
    environment: Choosing,
    graphs: EpochGraphs,
    validation: Sequence[ComputationGraph],
    *,
    learner: Callable[[Any, Any, Sequence[Example], int], Learner],
    epoch_graphs: int,
    policy: Any,
    config: Any,
    directory: str | os.PathLike,
    about: dict[str, Any],
    on_step: Callable[[int, dict[str, float]], None] = lambda step, metrics: None,
) -> Path:
    """Trains a policy; returns the file of the parameters that were best on ``validation``.

    An interrupted run, or one that is given more epochs, goes on from its last checkpoint, see
    ``trainer.fit``.

    Args:
      environment: of the choices. graphs: epoch -> its graphs, so many as ``epoch_graphs``.
      validation: graphs to choose parameters by.
      learner: (policy, config, validation, steps of an epoch) -> how to train.
      policy, config: what to train, and how: dataclasses, of which the latter has ``epochs``,
        ``batch_size`` and ``seed``.
      directory: gets ``checkpoints/``, ``metrics.csv``, ``config.json`` and ``best.policy``.
      about: goes into the policy file.
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
        learner(policy, config, [example(environment, graph) for graph in validation], steps),
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
    return Example(environment, environment.columns(graph), max(environment.bound(graph), 1e-30))


def validated(
    held_out: Sequence[Example], network: Network, samples: int
) -> tuple[float, dict[str, float]]:
    """What parameters are chosen by, and the metrics of VALIDATION."""
    best, greedy = (
        float(np.mean([drawn(one, network, count) for one in held_out])) for count in (samples, 0)
    )
    return best, dict(zip(VALIDATION, (best, greedy), strict=True))


def drawn(one: Example, network: Network, samples: int, first: int = 0) -> float:
    """The cost of the best of so many samples, 0 for the most likely schedule; the same noise for
    all parameters, that of the seeds from ``first`` on."""
    seeds = np.arange(first, first + max(samples, 1), dtype=np.uint64)
    costs = one.environment.drawn(one.columns, network, seeds, 1.0 if samples else 0.0)[1]
    return float(costs.min()) / one.bound


def _batches(
    environment: Choosing, graphs: EpochGraphs, config: Any, step: int, first: int
) -> Iterator[Batch]:
    """The batches of all epochs from the first on."""
    for epoch in range(first, config.epochs):
        some = [example(environment, graph) for graph in graphs(epoch)]
        for begin in range(0, len(some), config.batch_size):
            batch = some[begin : begin + config.batch_size]
            yield Batch(batch, begin + config.batch_size >= len(some))

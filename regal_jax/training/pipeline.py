"""From graphs to a trained policy file: examples, training loop, progress."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regal_jax.environments.schedule import Objective
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.policies.regal import RegalConfig
from regal_jax.reporting import progress
from regal_jax.training import checkpoints
from regal_jax.training.examples import Bucket, prepare_examples
from regal_jax.training.loop import train
from regal_jax.training.regal import TrainingConfig


def train_regal(
    graphs: Sequence[ComputationGraph],
    validation: Sequence[ComputationGraph],
    *,
    objective: Objective,
    regal: RegalConfig,
    config: TrainingConfig,
    directory: str | os.PathLike,
    validate_every: int,
    initial_policy: str | os.PathLike | None = None,
) -> Path:
    """Trains a REGAL policy and returns the file of the best one on the validation graphs.

    Arguments as in ``loop.train``; ``initial_policy`` is a policy file. Raises OptionError if there
    is nothing to learn from.
    """
    if not graphs or not validation:
        raise OptionError("no training or validation graphs are small enough (see --train_ops)")
    directory = Path(directory)
    examples = _prepare(graphs, "training examples", objective, regal, config)
    held_out = _prepare(validation, "validation examples", objective, regal, config)
    params = _initial_params(initial_policy, regal)
    with progress.bar("training", config.steps) as update:
        train(
            examples,
            held_out,
            regal=regal,
            config=config,
            directory=directory,
            validate_every=validate_every,
            about={"objective": objective, "training_graphs": len(graphs)},
            initial_policy=params,
            on_step=lambda step, metrics: update(step, f"reward {metrics['reward']:.4f}"),
        )
    return directory / "best.policy"


def _initial_params(path: str | os.PathLike | None, regal: RegalConfig) -> Any:
    """Parameters of a policy file, which must have the same configuration; None without a file."""
    if path is None:
        return None
    params, config, _ = checkpoints.load_policy(path)
    if config != regal:
        raise OptionError(f"{path} holds a policy of another configuration: {config}")
    return params


def _prepare(graphs, label: str, objective: Objective, regal, config) -> list[Bucket]:
    with progress.bar(label, len(graphs)) as update:
        done = iter(range(1, len(graphs) + 1))
        return prepare_examples(
            graphs,
            objective=objective,
            regal=regal,
            evaluations=config.evaluations,
            seed=config.seed,
            on_progress=lambda: update(next(done)),
        )

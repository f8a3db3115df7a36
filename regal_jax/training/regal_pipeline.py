"""From graphs to a trained policy file: examples, training loop, progress."""

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from regal_jax.environments.schedule import Objective
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.reporting import progress
from regal_jax.training import checkpoints, imitation
from regal_jax.training.loop import train
from regal_jax.training.regal import TrainingConfig
from regal_jax.training.regal_examples import Bucket, prepare_examples


def train_regal(
    graphs: Sequence[ComputationGraph],
    validation: Sequence[ComputationGraph],
    *,
    objective: Objective,
    regal: RegalConfig,
    config: TrainingConfig,
    directory: str | os.PathLike,
    validate_every: int,
    imitation_steps: int = 0,
    initial_policy: str | os.PathLike | None = None,
) -> Path:
    """Trains a REGAL policy and returns the file of the best one on the validation graphs.

    Arguments as in ``loop.train``; ``initial_policy`` is a policy file, without which a policy may
    begin with ``imitation_steps`` of ``imitation`` (for the "incumbent" feature set). Raises
    OptionError if there is nothing to learn from.
    """
    if imitation_steps and regal.feature_set != "incumbent":
        raise OptionError("--imitation_steps needs --feature_set=incumbent")
    if not graphs or not validation:
        raise OptionError("no training or validation graphs are small enough (see --train_ops)")
    directory = Path(directory)
    examples = _prepare(graphs, "training examples", objective, regal, config)
    held_out = _prepare(validation, "validation examples", objective, regal, config)
    params = _initial_params(initial_policy, regal)
    if params is None and imitation_steps:
        params = _head_start(examples, imitation_steps, regal, config, directory)
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
    params, config, _ = checkpoints.load_policy(path, RegalConfig)
    if config != regal:
        raise OptionError(f"{path} holds a policy of another configuration: {config}")
    return params


def _head_start(buckets, steps: int, regal, config, directory: Path) -> Any:
    """Parameters after imitation, kept in ``imitation.policy`` for a run that is resumed."""
    path = directory / "imitation.policy"
    if path.exists():
        return _initial_params(path, regal)
    with progress.bar("simple actions", sum(b.examples.num_graphs for b in buckets)) as update:
        done = itertools.count(1)
        experts = [
            imitation.best_scripts(
                bucket, regal=regal, config=config, on_progress=lambda: update(next(done))
            )
            for bucket in buckets
        ]
    inputs = buckets[0].examples.take(np.array(0)).inputs
    params = regal.policy.init(jax.random.key(config.seed), inputs)
    with progress.bar("imitation", steps) as update:
        params = imitation.imitate(
            params,
            buckets,
            experts,
            steps=steps,
            regal=regal,
            config=config,
            on_step=lambda step, loss: update(step, f"{loss:.4f} nats a choice"),
        )
    directory.mkdir(parents=True, exist_ok=True)
    checkpoints.save_policy(path, params, regal, about={"imitation_steps": steps})
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

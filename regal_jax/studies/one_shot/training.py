"""Policies of one-shot priority sampling: given, shipped, or trained."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regal_jax.policies.one_shot.policy import OneShotConfig
from regal_jax.reporting import progress
from regal_jax.studies.one_shot.corpora import GraphCorpus
from regal_jax.studies.one_shot.runs import NONE, asked
from regal_jax.studies.one_shot.settings import LEARNED, Settings, Training
from regal_jax.studies.settings import policy_file
from regal_jax.training import checkpoints
from regal_jax.training.one_shot import OneShotTraining, train_one_shot

Policies = Mapping[str, Path | None]
"""Policy files by setting; None is the shipped one for the graph at hand."""


def policies(found: Mapping[str, GraphCorpus], folder: Path, settings: Settings) -> Policies:
    """The policies to test: --policy, the shipped ones, or one trained for each corpus; none
    without one_shot among --methods."""
    if LEARNED not in (asked(name)[0] for name in settings.methods):
        return {}
    if settings.policy is not None:
        return dict.fromkeys(found, policy_file(settings.policy))
    trained = {corpus.name: corpus for corpus in found.values()}
    files = {
        name: train(corpus, folder / f"training_{name.replace(' ', '_')}", settings)
        for name, corpus in trained.items()
    }
    return {setting: files[corpus.name] for setting, corpus in found.items()}


def train(
    corpus: GraphCorpus,
    folder: Path,
    settings: Training,
    *,
    policy: Mapping[str, Any] = NONE,
    training: Mapping[str, Any] = NONE,
) -> Path:
    """The best, in validation, of --train_seeds policies; ``policy`` and ``training`` have what
    differs from the settings' OneShotConfig and OneShotTraining."""
    config = dataclasses.replace(_config(corpus, settings.one_shot), **policy)
    first = dataclasses.replace(settings.training, **training)
    found = []
    for seed in range(first.seed, first.seed + settings.train_seeds):
        own = folder / f"seed_{seed}"
        plan = dataclasses.replace(first, seed=seed)
        file = _trained(corpus, own, config, plan, settings.epoch_graphs)
        found.append((checkpoints.load_policy(file, OneShotConfig)[2]["validation_cost"], file))
    return min(found)[1]


def _config(corpus: GraphCorpus, config: OneShotConfig) -> OneShotConfig:
    """With as many machine types as there are, where features depend on that."""
    if config.feature_set != "paper":
        return config
    types = max(int(graph.machine_type.max()) + 1 for graph in corpus.validation)
    return dataclasses.replace(config, num_types=max(config.num_types, types))


def _trained(
    corpus: GraphCorpus,
    folder: Path,
    policy: OneShotConfig,
    config: OneShotTraining,
    epoch_graphs: int,
) -> Path:
    count = epoch_graphs if callable(corpus.training) else len(corpus.training)
    steps = config.epochs * -(-count // max(config.batch_size, 1))
    with progress.bar(f"training on {corpus.name}", steps) as update:
        return train_one_shot(
            corpus.training,
            corpus.validation,
            policy=policy,
            config=config,
            directory=folder,
            about={"objective": "makespan", "dataset": corpus.name},
            on_step=lambda step, metrics: update(step, f"cost {metrics['cost']:.3f}"),
        )

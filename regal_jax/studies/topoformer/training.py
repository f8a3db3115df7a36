"""Policies of Topoformer's experiments: given, shipped, or trained."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from regal_jax.methods.pretrained import shipped_policy
from regal_jax.policies.topological_order.policy import OrderingConfig
from regal_jax.reporting import progress
from regal_jax.studies.corpus import Corpus
from regal_jax.studies.flags import check_names
from regal_jax.studies.topoformer import graphs
from regal_jax.studies.topoformer.settings import OneLayered, Real, Training, Variants
from regal_jax.training.topological_order import train_ordering
from regal_jax.training.trainer import EpochGraphs


def policies(
    settings: OneLayered | Real, train: Callable[[], Path], *, shipped: str
) -> dict[str, Path]:
    """The policy to test: --policy, the one that is shipped under a name, or what ``train`` makes;
    none without topoformer among --methods."""
    if "topoformer" not in settings.methods:
        return {}
    if settings.policy is None:
        return {"topoformer": train()}
    if settings.policy == "shipped":
        return {"topoformer": shipped_policy(shipped, "topoformer")}
    return {"topoformer": Path(settings.policy)}


def train_variants(
    folder: Path, known: Mapping[str, Mapping[str, Any]], settings: Variants
) -> dict[str, Path]:
    """The policies of --variants, each trained on layered graphs in a folder of its own; ``known``
    has by name what differs from the settings' OrderingConfig."""
    check_names("variants", settings.variants, known)
    return {
        name: train(
            folder / name,
            graphs.layered_corpus(settings),
            settings,
            dataclasses.replace(settings.ordering, **known[name]),
        )
        for name in settings.variants
    }


def train(
    folder: Path,
    corpus: Corpus[EpochGraphs],
    settings: Training,
    policy: OrderingConfig | None = None,
) -> Path:
    """A policy trained on a corpus; by default one of the settings' OrderingConfig."""
    config = settings.training
    with progress.bar("training", config.epochs * config.steps_per_epoch) as update:
        return train_ordering(
            corpus.training,
            corpus.validation,
            policy=policy or settings.ordering,
            config=config,
            directory=folder,
            about={"objective": "peak_memory", "dataset": corpus.name},
            on_step=lambda step, metrics: update(step, f"cost {metrics['cost']:.3f}"),
        )

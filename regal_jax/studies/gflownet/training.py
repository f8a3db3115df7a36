"""Policies of robust scheduling: given, shipped, or trained, one system or variant at a time."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.policies.gflownet.policy import FlowConfig
from regal_jax.reporting import progress
from regal_jax.studies.corpus import Corpus
from regal_jax.studies.gflownet import comparison
from regal_jax.studies.gflownet.settings import Comparison, Training
from regal_jax.studies.settings import policy_file
from regal_jax.training import gflownet, ppo
from regal_jax.training.flow import train_flow
from regal_jax.training.gflownet import FlowTraining
from regal_jax.training.ppo import PPOTraining
from regal_jax.training.trainer import Learner

LEARNED = ("gflownet", "ppo")

Plan = FlowTraining | PPOTraining

Graphs = Corpus[Sequence[ComputationGraph]]
"""Graphs to train on, and unseen ones to look at meanwhile."""


def policies(
    corpus: Graphs, folder: Path, settings: Comparison
) -> dict[tuple[str, int], Path | None]:
    """The policies of the learned ones of --methods: given, shipped, or trained on a corpus, with
    --retrain one for each seed."""
    comparison.trial(settings)  # whose errors should come before hours of training
    given = {"gflownet": settings.policy, "ppo": settings.ppo_policy}
    plans: dict[str, Plan] = {"gflownet": settings.training, "ppo": settings.ppo}
    found: dict[tuple[str, int], Path | None] = {}
    methods = [search.method for search in comparison.searches(settings)]
    for system in dict.fromkeys(method for method in methods if method in LEARNED):
        for seed in range(settings.seeds):
            if (file := given[system]) is not None:
                found[system, seed] = policy_file(file)
            elif seed == 0 or settings.retrain:
                found[system, seed] = train(
                    system, corpus, folder, settings.flow, plans[system], seed
                )
            else:
                found[system, seed] = found[system, 0]
    return found


def train(
    name: str, corpus: Graphs, folder: Path, policy: FlowConfig, plan: Plan, seed: int
) -> Path:
    """A policy, trained in its folder in ``training_folder``; ``seed`` is added to the plan's."""
    plan = dataclasses.replace(plan, seed=plan.seed + seed)
    with progress.bar(f"{name} on {corpus.name}", plan.steps) as update:
        return train_flow(
            corpus.training,
            corpus.validation,
            learner=_learner(policy, plan),
            policy=policy,
            plan=plan,
            directory=training_folder(folder, name) / f"seed_{seed}",
            about={"objective": "makespan", "dataset": corpus.name},
            on_step=lambda step, metrics: update(step, f"speedup {metrics['speedup']:.3f}"),
        )


def train_variants(
    corpus: Graphs,
    folder: Path,
    variants: Mapping[str, Mapping[str, Any]],
    settings: Training,
) -> dict[str, list[Path]]:
    """GFlowNets by variant, one for each of --seeds; variants have what differs from the settings'
    FlowTraining."""
    plans = {
        name: dataclasses.replace(settings.training, **changes)
        for name, changes in variants.items()
    }
    return {
        name: [
            train(name, corpus, folder, settings.flow, plan, seed) for seed in range(settings.seeds)
        ]
        for name, plan in plans.items()
    }


def training_folder(folder: Path, name: str) -> Path:
    """Where policies are trained, a folder for each seed."""
    return folder / f"training_{name.replace(':', '-')}"


def regime(name: str) -> dict[str, float]:
    """What a regime of temperatures, "T" or "LOW:HIGH", changes: those of training, and that
    schedules are drawn at the lowest of them (appendix F)."""
    try:
        low, high = (float(part) for part in (name.split(":") * 2)[:2])
    except ValueError:
        raise OptionError(f"regimes: {name!r} is neither T nor LOW:HIGH") from None
    return {"min_temperature": low, "max_temperature": high, "test_temperature": low}


def _learner(policy: FlowConfig, plan: Plan) -> Learner:
    if isinstance(plan, PPOTraining):
        return ppo.learner(policy, plan)
    return gflownet.learner(policy, plan)

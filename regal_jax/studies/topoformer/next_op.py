"""Orders chosen op by op, by learned weights, held against their control."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regal_jax.datasets.layered import layered_graphs
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.policies.choosing import NextOpConfig
from regal_jax.reporting import progress
from regal_jax.search.orders.choices import NEXT_OP
from regal_jax.studies.flags import group, option
from regal_jax.studies.settings import GivenPolicy, Output, policy_file
from regal_jax.studies.topoformer import comparison, graphs
from regal_jax.studies.topoformer.settings import Comparison, RealGraphs
from regal_jax.studies.topoformer.tables import PAPER_TABLE_1
from regal_jax.training import evolution
from regal_jax.training.choosing import train_choosing
from regal_jax.training.evolution import Evolution
from regal_jax.training.trainer import EpochGraphs

METHODS = ("approximate_dp", *comparison.CHOOSING)
DATA = (
    "dataset",
    "train_nodes",
    "train_ops",
    "train_graphs",
    "copies",
    "microbatches",
)
"""Settings that a policy file keeps, besides those of the training."""


@dataclass(frozen=True, kw_only=True)
class Settings(Output, GivenPolicy, RealGraphs, Comparison):
    """How a policy is trained, on layered and on real graphs, and what it is tested on."""

    methods: tuple[str, ...] = option(METHODS, "What to run, approximate_dp among them.")
    test_nodes: tuple[int, ...] = option((500, 1000), "Ops of layered test graphs.")
    train_nodes: tuple[int, ...] = option((200, 300, 500), "Ops of layered training graphs.")
    epoch_graphs: int = option(160, "Graphs of an epoch: real ones, and fresh layered ones.")
    validation_graphs: int = option(24, "Most validation graphs of each kind.")
    training: Evolution = group(Evolution())


def run(settings: Settings, folder: Path) -> None:
    """Trains the policy unless one is given, runs everything, and prints a table a setting."""
    comparison.reference(settings)
    found = graphs.real_graphs(settings.dataset)
    file = policy(settings, found, folder) if "next_op" in settings.methods else None
    layered = graphs.layered_tests(settings.test_nodes, settings.test_graphs)
    tests = layered | graphs.real_tests(found["test"], settings)
    runs = comparison.runs({}, settings, next_op=file)
    rows = comparison.compare(tests, runs, folder, settings)
    comparison.report(rows, list(tests), runs, settings, PAPER_TABLE_1)


def policy(
    settings: Settings, real: dict[str, list[ComputationGraph]], folder: Path
) -> Path | None:
    """The policy file to test: --policy, the shipped one (None), or one trained in ``folder``."""
    if settings.policy is not None:
        return policy_file(settings.policy)
    config, count = settings.training, settings.epoch_graphs
    steps = config.epochs * -(-count // config.batch_size)
    with progress.bar("training next_op", steps) as update:
        return train_choosing(
            NEXT_OP,
            training_graphs(settings, graphs.real_pool(real["train"], settings)),
            validation_graphs(settings, real["valid"]),
            learner=evolution.learner,
            epoch_graphs=count,
            policy=NextOpConfig(),
            config=config,
            directory=folder / "training",
            about={"objective": "peak_memory"} | {n: getattr(settings, n) for n in DATA},
            on_step=lambda step, metrics: update(step, f"cost {metrics['cost']:.3f}"),
        )


def training_graphs(settings: Settings, pool: Sequence[ComputationGraph]) -> EpochGraphs:
    """Epochs of graphs of a pool in turns, and of new layered ones of all sizes: as many as there
    would be for each number of microbatches."""
    seed, count = settings.training.seed, settings.epoch_graphs // (1 + len(settings.microbatches))
    real = graphs.in_turns(pool, seed, settings.epoch_graphs - count)
    each = -(-count // len(settings.train_nodes))

    def epoch_graphs(epoch: int) -> list[ComputationGraph]:
        first = graphs.TRAINING_SEED + seed + epoch
        layered = [g for nodes in settings.train_nodes for g in layered_graphs(first, each, nodes)]
        some = [*layered[:count], *real(epoch)]
        order = np.random.default_rng((seed, first)).permutation(len(some))
        return [some[index] for index in order]

    return epoch_graphs


def validation_graphs(
    settings: Settings, real: Sequence[ComputationGraph]
) -> list[ComputationGraph]:
    """As many layered as real ones, and those in so many microbatches, at most."""
    count, nodes = settings.validation_graphs, max(settings.train_nodes)
    layered = layered_graphs(graphs.VALIDATION_SEED, count, nodes)
    return [*layered, *graphs.real_validation(real, settings, count)]

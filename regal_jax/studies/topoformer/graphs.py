"""Graphs of Topoformer's experiments: layered ones by seed, real ones by split and size."""

from collections.abc import Sequence

import numpy as np

from regal_jax.datasets import corpora
from regal_jax.datasets.layered import layered_graphs
from regal_jax.datasets.zoo import load, splits
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.methods.simple import best_simple_schedule
from regal_jax.studies.corpus import Corpus
from regal_jax.studies.topoformer.settings import Layered, Real, RealGraphs
from regal_jax.training.trainer import EpochGraphs

TEST_SEED, VALIDATION_SEED, TRAINING_SEED = 0, 1, 1000
"""Of layered graphs. Epoch e of a training with seed s has those of seed 1000 + s + e, so that no
test or validation graph is ever trained on: ``layered_graphs`` of different seeds have no random
stream in common."""


def layered_tests(sizes: Sequence[int], count: int) -> dict[str, list[ComputationGraph]]:
    """So many test graphs of each size, by setting: "500 nodes" and so on."""
    return {f"{nodes} nodes": layered_graphs(TEST_SEED, count, nodes) for nodes in sizes}


def layered_corpus(settings: Layered) -> Corpus[EpochGraphs]:
    """New graphs in every epoch (section 5.1)."""
    config, nodes = settings.training, settings.train_nodes

    def epoch_graphs(epoch: int) -> list[ComputationGraph]:
        return layered_graphs(TRAINING_SEED + config.seed + epoch, config.epoch_graphs, nodes)

    validation = layered_graphs(VALIDATION_SEED, settings.validation_graphs, nodes)
    return Corpus(f"layered, {nodes} nodes", epoch_graphs, validation)


def real_graphs(dataset: str) -> dict[str, list[ComputationGraph]]:
    """The graphs of a data set by split: train, valid and test (``model_zoo``, by architecture)."""
    graphs = load.model_zoo("all", folder=None if dataset == "model_zoo" else dataset)
    own = splits.splits(graphs)
    return {
        split: [graph for graph, its in zip(graphs, own, strict=True) if its == split]
        for split in ("train", "valid", "test")
    }


def real_tests(
    graphs: Sequence[ComputationGraph], settings: RealGraphs
) -> dict[str, list[ComputationGraph]]:
    """Test graphs by setting: "200-500 nodes" and so on, and "4 microbatches", as small as training
    graphs are; those without any left out."""
    strata, most = settings.strata, settings.test_graphs
    found = {f"{s} nodes": between(graphs, *_ends(s), most) for s in strata}
    if not any(found.values()):
        raise OptionError(f"strata {','.join(strata)}: no test graph is in any of them")
    for count in settings.microbatches:
        if count > 1:
            found[f"{count} microbatches"] = held_out(graphs, count, settings.train_ops, most)
    return {setting: some for setting, some in found.items() if some}


def real_corpus(
    settings: Real, training: Sequence[ComputationGraph], validation: Sequence[ComputationGraph]
) -> Corpus[EpochGraphs]:
    """Real graphs for a Topoformer policy."""
    config, most = settings.training, settings.validation_graphs
    epochs = in_turns(real_pool(training, settings), config.seed, config.epoch_graphs)
    return Corpus(settings.dataset, epochs, real_validation(validation, settings, most))


def real_validation(
    graphs: Sequence[ComputationGraph], settings: RealGraphs, most: int
) -> list[ComputationGraph]:
    """At most so many graphs for each number of microbatches."""
    each = [held_out(graphs, count, settings.train_ops, most) for count in settings.microbatches]
    return [graph for some in each for graph in some]


def held_out(
    graphs: Sequence[ComputationGraph], count: int, most_ops: int, most: int
) -> list[ComputationGraph]:
    """Steps over so many microbatches as ``to_learn_from`` has them."""
    return to_learn_from(corpora.in_microbatches(graphs, count, most_ops), most_ops, most)


def real_pool(training: Sequence[ComputationGraph], settings: RealGraphs) -> list[ComputationGraph]:
    """Real graphs to train on: also copies of them with other sizes (REGAL, A.1), in microbatches.
    OptionError without any."""
    most, pool = settings.train_ops, []
    for count in settings.microbatches:
        some = to_learn_from(training, most // count, settings.train_graphs)
        copies = range(settings.copies + 1)
        pool += corpora.variants(some, copies, num_microbatches=count, max_ops=most)
    if not pool:
        raise OptionError(f"train_ops {settings.train_ops}: no training graph is that small")
    return pool


def to_learn_from(
    graphs: Sequence[ComputationGraph], most_ops: int, most: int
) -> list[ComputationGraph]:
    """Graphs of at most so many ops whose best simple order isn't at its lower bound, at most so
    many, evenly over sizes."""
    some = [g for g in graphs if 2 <= g.num_ops <= most_ops and _has_headroom(g)]
    return corpora.evenly_by_size(some, most)


def between(
    graphs: Sequence[ComputationGraph], low: int, below: int, most: int
) -> list[ComputationGraph]:
    """At most ``most`` of the graphs with low <= ops < below, evenly spaced by size."""
    fitting = [graph for graph in graphs if low <= graph.num_ops < below]
    return corpora.evenly_by_size(fitting, most)


def in_turns(pool: Sequence[ComputationGraph], seed: int, count: int) -> EpochGraphs:
    """Epochs of so many graphs at random, none drawn again before all others were."""

    def epoch_graphs(epoch: int) -> list[ComputationGraph]:
        rng = np.random.default_rng((seed, TRAINING_SEED + epoch))
        chosen = np.concatenate([rng.permutation(len(pool)) for _ in range(-(-count // len(pool)))])
        return [pool[index] for index in chosen[:count]]

    return epoch_graphs


def _has_headroom(graph: ComputationGraph) -> bool:
    best = best_simple_schedule(graph, "peak_memory", Platform(1)).cost
    return best > PlacementProblem(graph, 1, "peak_memory").lower_bound


def _ends(stratum: str) -> tuple[int, int]:
    low, _, below = stratum.partition("-")
    if not (low.isdecimal() and below.isdecimal()):
        raise OptionError(f"strata: {stratum!r} is not FROM-BELOW, such as 200-500")
    return int(low), int(below)

"""Which graphs an experiment trains, validates and tests on; real ones where there is a folder."""

import os
from collections.abc import Sequence

import numpy as np

from regal_jax.datasets import model_zoo, synthetic
from regal_jax.graphs import transforms
from regal_jax.graphs.computation_graph import ComputationGraph

DataDir = str | os.PathLike | None

_SEEDS = {"train": 0, "valid": 1_000_000, "test": 2_000_000}


def training_graphs(data_dir: DataDir, copies: int, max_ops: int) -> list[ComputationGraph]:
    """Real graphs of the training families, whole and in 2 and 4 microbatches (the last twice as
    often), each in ``copies`` sizes; and thirty synthetic graphs a copy."""
    graphs = synthetic_graphs("train", 30 * copies if data_dir else 100 * copies)
    if data_dir is None:
        return graphs
    zoo = model_zoo.load_model_zoo(data_dir, "train")
    for seed, (split, share) in enumerate(((1, 1), (2, 1), (4, 2))):
        graphs += model_zoo.variants(
            zoo, copies=share * copies, num_microbatches=split, max_ops=max_ops, seed=seed
        )
    return graphs


def validation_graphs(
    data_dir: DataDir, max_ops: int, *, max_graphs: int = 40
) -> list[ComputationGraph]:
    """Graphs of the validation families, whole and in 4 microbatches, evenly over sizes."""
    if data_dir is None:
        return synthetic_graphs("valid", max_graphs)
    zoo = model_zoo.load_model_zoo(data_dir, "valid")
    graphs = [
        graph
        for split in (1, 4)
        for graph in model_zoo.variants(
            zoo, copies=1, num_microbatches=split, max_ops=2 * max_ops, seed=9
        )
    ]
    return _evenly(graphs, max_graphs)


def test_settings(
    data_dir: DataDir, *, microbatches: Sequence[int], max_ops: int, max_graphs: int
) -> dict[str, list[ComputationGraph]]:
    """Test graphs, unseen in training, by setting: whole ("as traced") and in k microbatches.

    Sizes are multiplied by U(0.5, 1.5) as in REGAL A.1. At most ``max_graphs`` graphs, evenly over
    sizes; in each setting those of more than ``max_ops`` ops after splitting are left out.
    """
    if data_dir is None:
        graphs = synthetic_graphs("test", max_graphs)
    else:
        zoo = model_zoo.load_model_zoo(data_dir, "test")
        graphs = model_zoo.variants(
            zoo, copies=1, num_microbatches=1, max_ops=max_ops, seed=_SEEDS["test"]
        )
    graphs = _evenly(graphs, max_graphs)
    return {
        "as traced" if k == 1 else f"{k} microbatches": [
            transforms.microbatches(graph, k) for graph in graphs if k * graph.num_ops <= max_ops
        ]
        for k in microbatches
    }


def synthetic_graphs(split: str, count: int) -> list[ComputationGraph]:
    """REGAL's synthetic recipe; a split has its own seeds."""
    return list(synthetic.regal_synthetic_dataset(_SEEDS[split], count))


def _evenly(graphs: Sequence[ComputationGraph], most: int) -> list[ComputationGraph]:
    """At most ``most`` graphs, evenly spaced by size."""
    ranked = sorted(graphs, key=lambda graph: (graph.num_ops, graph.name))
    if len(ranked) <= most:
        return ranked
    return [ranked[i] for i in np.linspace(0, len(ranked) - 1, most).round().astype(int)]

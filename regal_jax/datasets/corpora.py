"""Which graphs an experiment trains, validates and tests on.

A data set is ``model_zoo``, the package's real graphs; ``synthetic``, REGAL's recipe; any other
that is registered (``registry.dataset``); or the path of a folder of graph files, split like the
model zoo.
"""

import collections
from collections.abc import Sequence

import numpy as np

from regal_jax import registry
from regal_jax.datasets import synthetic
from regal_jax.datasets.zoo import load, splits
from regal_jax.errors import RegalError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.rewrites.microbatches import microbatches as split_in_microbatches

_SEEDS = {"train": 0, "valid": 1_000_000, "test": 2_000_000}
_UNSEEN_COPY = 1000
"""Which noisy copy of a graph to validate and test on; training takes those from 1 on."""


def training_graphs(
    dataset: str, copies: int, max_ops: int, *, max_graphs: int = 10_000
) -> list[ComputationGraph]:
    """Real graphs of the training families, whole and in 2 and 4 microbatches (the last twice as
    often), each in ``copies`` sizes; and thirty synthetic graphs a copy.

    ``max_graphs`` is the most real graphs (of at most ``max_ops`` ops) before splitting and
    copying: one of each family, then a second of each, and so on.
    """
    if dataset == "synthetic":
        return synthetic_graphs("train", 100 * copies)
    graphs = synthetic_graphs("train", 30 * copies)
    found = [graph for graph in _real_graphs(dataset, "train") if graph.num_ops <= max_ops]
    found = _family_by_family(found, max_graphs)
    for split, share in ((1, 1), (2, 1), (4, 2)):
        numbers = range(1, 1 + share * copies)
        graphs += variants(found, numbers, num_microbatches=split, max_ops=max_ops)
    return graphs


def validation_graphs(
    dataset: str, max_ops: int, *, max_graphs: int = 40
) -> list[ComputationGraph]:
    """Graphs of the validation families, whole and in 4 microbatches, evenly over sizes."""
    if dataset == "synthetic":
        return synthetic_graphs("valid", max_graphs)
    found = _real_graphs(dataset, "valid")
    graphs = [
        graph
        for split in (1, 4)
        for graph in variants(found, [_UNSEEN_COPY], num_microbatches=split, max_ops=2 * max_ops)
    ]
    return evenly_by_size(graphs, max_graphs)


def test_settings(
    dataset: str, *, microbatches: Sequence[int], max_ops: int, max_graphs: int
) -> dict[str, list[ComputationGraph]]:
    """Test graphs, unseen in training, by setting: whole ("as traced") and in k microbatches.

    Sizes are multiplied by U(0.5, 1.5) as in REGAL A.1. At most ``max_graphs`` graphs, evenly over
    sizes; in each setting those of more than ``max_ops`` ops after splitting are left out.
    """
    if dataset == "synthetic":
        graphs = synthetic_graphs("test", max_graphs)
    else:
        found = _real_graphs(dataset, "test")
        graphs = variants(
            evenly_by_size(found, max_graphs), [_UNSEEN_COPY], num_microbatches=1, max_ops=max_ops
        )
    graphs = evenly_by_size(graphs, max_graphs)
    return {
        "as traced" if k == 1 else f"{k} microbatches": in_microbatches(graphs, k, max_ops)
        for k in microbatches
    }


def xla_graphs(dataset: str, *, max_ops: int, max_graphs: int) -> list[ComputationGraph]:
    """A random sample of the XLA graphs of the test families, as they are; none if synthetic."""
    if dataset == "synthetic":
        return []
    found = _real_graphs(dataset, "test")
    fitting = [g for g in found if g.source.startswith("xla") and 2 <= g.num_ops <= max_ops]
    return sorted(fitting, key=lambda graph: splits.name_hash(graph.name))[:max_graphs]


def in_microbatches(
    graphs: Sequence[ComputationGraph], count: int, max_ops: int
) -> list[ComputationGraph]:
    """Steps over so many microbatches, of graphs of at most so many ops in all of them together."""
    fitting = [graph for graph in graphs if count * graph.num_ops <= max_ops]
    return [split_in_microbatches(graph, count) for graph in fitting]


def variants(
    graphs: Sequence[ComputationGraph],
    copies: Sequence[int],
    *,
    num_microbatches: int,
    max_ops: int,
) -> list[ComputationGraph]:
    """Noisy copies by number (``load.augmented``) of graphs as they are or in microbatches.

    Graphs of more than ``max_ops`` ops after splitting, or of fewer than 2, are left out.
    """
    fitting = [g for g in graphs if 2 <= g.num_ops <= max_ops / num_microbatches]
    return [
        split_in_microbatches(copy, num_microbatches).replace(
            name=f"{graph.name}#{num_microbatches}x{number}"
        )
        for graph in fitting
        for number, copy in zip(copies, load.augmented(graph, copies), strict=True)
    ]


def synthetic_graphs(split: str, count: int) -> list[ComputationGraph]:
    """REGAL's synthetic recipe; a split has its own seeds."""
    return list(synthetic.regal_synthetic_dataset(_SEEDS[split], count))


@registry.dataset("model_zoo")
def zoo_graphs(split: str) -> list[ComputationGraph]:
    """Real computation graphs of the package, split by family."""
    return load.model_zoo(split)


@registry.dataset("synthetic")
def hundred_synthetic_graphs(split: str) -> list[ComputationGraph]:
    """A hundred graphs of REGAL's recipe; a split has its own seeds."""
    return synthetic_graphs(split, 100)


def _real_graphs(dataset: str, split: str) -> list[ComputationGraph]:
    registered = registry.entries("dataset")
    if dataset in registered:
        graphs = list(registered[dataset].make(split))
    else:
        graphs = load.model_zoo(split, folder=dataset)
    if not graphs:
        raise RegalError(f"{dataset}: no graph of a family of the {split} split there")
    return graphs


def _family_by_family(graphs: Sequence[ComputationGraph], most: int) -> list[ComputationGraph]:
    """At most ``most`` graphs: the first of every family, then the second, in a fixed order."""
    before: collections.Counter[str] = collections.Counter()
    ranked = []
    for graph in sorted(graphs, key=lambda graph: splits.name_hash(graph.name)):
        ranked.append((before[graph.family], splits.name_hash(graph.family), graph))
        before[graph.family] += 1
    return [graph for *_, graph in sorted(ranked, key=lambda entry: entry[:2])[:most]]


def evenly_by_size(graphs: Sequence[ComputationGraph], most: int) -> list[ComputationGraph]:
    """At most ``most`` graphs, evenly spaced by size."""
    ranked = sorted(graphs, key=lambda graph: (graph.num_ops, graph.name))
    if len(ranked) <= most:
        return ranked
    return [ranked[i] for i in np.linspace(0, len(ranked) - 1, most).round().astype(int)]

"""The model zoo: computation graphs of real models, with splits and subsets for experiments.

    graphs = regal_jax.datasets.model_zoo(split="test", subset="headroom")

Graphs come in the order of their names. What is known of each, bounds and headroom included, is a
row of ``card()``.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path

import numpy as np

from regal_jax.datasets.zoo import shards as zoo_shards
from regal_jax.datasets.zoo.card import card
from regal_jax.datasets.zoo.recipes.recipe import MODES
from regal_jax.datasets.zoo.splits import RULES, splits
from regal_jax.errors import OptionError, RegalError
from regal_jax.graphs import files
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.roofline import A100, DeviceProfile
from regal_jax.graphs.rewrites import transforms
from regal_jax.graphs.rewrites.microbatches import microbatches
from regal_jax.graphs.topology_hash import topology_hash

SPLITS = ("train", "valid", "test", "all")
SUBSETS = ("all", "headroom", *MODES, "microbatches")
PARTS = 4
"""Microbatches of a graph in the subset that splits graphs."""
HEADROOM = 2.0
"""Percent of program order's peak over the best known, from which on a graph has headroom."""


def model_zoo(
    split: str = "all",
    subset: str = "all",
    *,
    rule: str = "architecture",
    folder: str | os.PathLike | None = None,
    profile: DeviceProfile = A100,
) -> list[ComputationGraph]:
    """Real computation graphs, one of every topology.

    Args:
      split: train, valid, test or all.
      subset: all; a mode (inference, training, training_adam, training_checkpointed); headroom,
        those whose program order the best known schedule beats by 2 % or more in one of the
        settings of the card; or microbatches, the training graphs (of all three modes) in four
        microbatches (``graphs.microbatches``), with ``@4`` after their names.
      rule: what the split goes by, see ``splits``: architecture, paper, source or size.
      folder: of .json and .jsonl[.gz] files to take instead of the shipped graphs, searched with
        its subfolders (``experiments/build_model_zoo.py`` fills one).
      profile: the device whose roofline gives the durations of the shipped graphs.

    Raises:
      OptionError: an unknown split, subset or rule.
      RegalError: a folder without graphs, or a malformed file.
    """
    for value, known in ((split, SPLITS), (subset, SUBSETS), (rule, tuple(RULES))):
        if value not in known:
            raise OptionError(f"{value!r} is none of {', '.join(known)}")
    graphs = list(_shipped(profile) if folder is None else _from_folder(folder))
    if split != "all":
        own = splits(graphs, rule)
        graphs = [graph for graph, its_split in zip(graphs, own, strict=True) if its_split == split]
    if subset == "headroom":
        wide = {row["name"] for row in card() if _headroom(row) >= HEADROOM}
        return [graph for graph in graphs if graph.name in wide]
    if subset == "microbatches":
        return [_split(graph) for graph in graphs if mode_of(graph).startswith("training")]
    return [graph for graph in graphs if subset in ("all", mode_of(graph))]


def mode_of(graph: ComputationGraph) -> str:
    """What was traced: the last part of the graph's source, such as ``training``."""
    return graph.source.rsplit("/", 1)[-1]


def augmented(graph: ComputationGraph, copies: Iterable[int]) -> Iterator[ComputationGraph]:
    """Copies of the graph by number, sizes times U(0.5, 1.5) (REGAL, A.1); 0 is the graph itself.

    The paper trains on 99 copies, 1 to 99. The factors depend on topology and number alone.
    """
    seed = int(topology_hash(graph)[:16], 16)
    for copy in copies:
        scaled = transforms.scale_sizes(np.random.default_rng((seed, copy)), graph)
        yield scaled.replace(name=f"{graph.name}#{copy}") if copy else graph


def _shipped(profile: DeviceProfile) -> Iterator[ComputationGraph]:
    shards = sorted(resources.files(__package__).iterdir(), key=lambda path: path.name)
    for shard in shards:
        if shard.name.startswith("model_zoo-") and shard.name.endswith(".npz"):
            with resources.as_file(shard) as path:
                yield from zoo_shards.load_shard(path, profile)


def _from_folder(folder: str | os.PathLike) -> list[ComputationGraph]:
    paths = sorted(path for path in Path(folder).rglob("*.json*") if path.is_file())
    graphs = [graph for path in paths for graph in files.load_graphs(path)]
    if not graphs:
        raise RegalError(f"{folder}: no .json, .jsonl or .jsonl.gz graph files there")
    return sorted(graphs, key=lambda graph: graph.name)


def _split(graph: ComputationGraph) -> ComputationGraph:
    return microbatches(graph, PARTS).replace(name=f"{graph.name}@{PARTS}")


def _headroom(row: Mapping[str, str]) -> float:
    values = [value for key, value in row.items() if key.startswith("headroom_") and value]
    return max(map(float, values), default=0.0)

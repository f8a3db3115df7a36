"""Packs a built model zoo for the package: one graph of every topology, in compressed shards."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from regal_jax.datasets.zoo import shards as zoo_shards
from regal_jax.errors import RegalError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.topology_hash import topology_hash

MAX_SHARD_OPS = 600_000
"""Ops of a shard at most: below 10 MiB, and 100 MiB while it is read."""


def distinct(graphs: Iterable[ComputationGraph]) -> list[ComputationGraph]:
    """The first graph of every topology, in the order given.

    Topology is who produces and consumes what; kinds, sizes and costs don't tell graphs apart, so
    that a wider or renamed model isn't counted twice.
    """
    first: dict[str, ComputationGraph] = {}
    for graph in graphs:
        first.setdefault(topology_hash(graph), graph)
    return list(first.values())


def save(graphs: Sequence[ComputationGraph], folder: str | os.PathLike) -> list[Path]:
    """Writes ``model_zoo-N.npz`` shards, in the order of names; removes older ones."""
    folder = Path(folder)
    if not graphs:
        raise RegalError(f"{folder}: no graphs to pack")
    paths = []
    for number, shard in enumerate(_shards(sorted(graphs, key=lambda graph: graph.name))):
        paths.append(folder / f"model_zoo-{number}.npz")
        zoo_shards.save_shard(shard, paths[-1])
    for old in set(folder.glob("model_zoo-*.npz")) - set(paths):
        old.unlink()
    return paths


def _shards(graphs: Iterable[ComputationGraph]) -> list[list[ComputationGraph]]:
    shards: list[list[ComputationGraph]] = [[]]
    total = 0
    for graph in graphs:
        if total and total + graph.num_ops > MAX_SHARD_OPS:
            shards.append([])
            total = 0
        shards[-1].append(graph)
        total += graph.num_ops
    return shards

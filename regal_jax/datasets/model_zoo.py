"""Real-model graphs from a folder of ``regal-graph/1`` files, split by architecture family."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regal_jax.errors import RegalError
from regal_jax.graphs import files, transforms
from regal_jax.graphs.computation_graph import ComputationGraph

SPLITS = {"train": (0, 38), "valid": (38, 44), "test": (44, 100)}
"""Shares of families: sha256("regal" + family) mod 100 falls into [low, high)."""


def load_model_zoo(data_dir: str | os.PathLike, split: str) -> list[ComputationGraph]:
    """The graphs of one split of all .jsonl.gz and .jsonl files in a folder. Raises RegalError."""
    paths = sorted(path for path in Path(data_dir).glob("*.jsonl*"))
    if not paths:
        raise RegalError(f"{data_dir}: no .jsonl or .jsonl.gz graph files there")
    low, high = SPLITS[split]
    graphs = [graph for path in paths for graph in files.load_graphs(path)]
    return [graph for graph in graphs if low <= family_bucket(graph.family) < high]


def family_bucket(family: str) -> int:
    """0..99, from the name of an architecture family alone."""
    return int(hashlib.sha256(f"regal{family}".encode()).hexdigest(), 16) % 100


def variants(
    graphs: Sequence[ComputationGraph],
    *,
    copies: int,
    num_microbatches: int,
    max_ops: int,
    seed: int,
) -> list[ComputationGraph]:
    """Augmented graphs: sizes times U(0.5, 1.5) (A.1), of graphs as they are or in microbatches.

    Graphs of more than ``max_ops`` ops after splitting are left out. Deterministic in ``seed``.
    """
    result = []
    for index, graph in enumerate(graphs):
        if graph.num_ops * num_microbatches > max_ops or graph.num_ops < 2:
            continue
        for copy in range(copies):
            rng = np.random.default_rng((seed, index, copy))
            scaled = transforms.scale_sizes(rng, graph)
            name = f"{graph.name}#{num_microbatches}x{copy}"
            result.append(transforms.microbatches(scaled, num_microbatches).replace(name=name))
    return result

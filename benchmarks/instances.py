"""Graphs for the benchmarks: real ones of about a given size, else synthetic layered ones."""

import os

import numpy as np

from regal_jax.datasets.zoo import load
from regal_jax.graphs import random_graphs
from regal_jax.graphs.computation_graph import ComputationGraph


def graphs_of_sizes(data_dir: str | None, sizes: list[int]) -> list[ComputationGraph]:
    """For each size, the test graph of the nearest number of ops in the model zoo or a folder.

    A synthetic graph stands in where none is within 20% of the size.
    """
    pool = load.model_zoo("all" if data_dir else "test", folder=data_dir)
    chosen = []
    for size in sizes:
        nearest = min(pool, key=lambda graph: abs(graph.num_ops - size), default=None)
        if nearest is None or abs(nearest.num_ops - size) > 0.2 * size:
            nearest = layered_graph(size)
        chosen.append(nearest)
    return chosen


def layered_graph(num_ops: int, width: int = 8) -> ComputationGraph:
    """A layered graph, one tensor an op and a parameter for every second op."""
    rng = np.random.default_rng(num_ops)
    edges = _layered_edges(rng, num_ops, width)
    readers: list[list[int]] = [[] for _ in range(num_ops)]
    for producer, consumer in edges.tolist():
        readers[producer].append(consumer)
    parameters = num_ops // 2
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=np.concatenate([np.arange(num_ops), np.full(parameters, -1)]),
        size=rng.integers(1, 2**20, num_ops + parameters),
        consumers=readers + [[2 * op] for op in range(parameters)],
        persistent=[False] * num_ops + [True] * parameters,
        duration=rng.uniform(1, 100, num_ops),
        name=f"layered{num_ops}",
    )


def _layered_edges(rng: np.random.Generator, num_ops: int, width: int) -> np.ndarray:
    """As ``random_graphs.layered``; in blocks of 1,000 ops, whose matrices stay small."""
    blocks = []
    for first in range(0, num_ops, 1000):
        count = min(1000, num_ops - first)
        blocks.append(random_graphs.layered(rng, count, width, skip_probability=0.001) + first)
        if first:
            blocks.append(np.array([[first - 1, first]]))
    return np.concatenate(blocks)


def machine() -> str:
    """The cores this process may use."""
    return f"{len(os.sched_getaffinity(0))} CPU cores"


def print_table(header: list[str], rows: list[list[object]]) -> None:
    """Right-aligned columns."""
    cells = [header, *[[_cell(value) for value in row] for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for row in cells:
        print("  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)))


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

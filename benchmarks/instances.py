"""Graphs for the benchmarks: real ones of about a given size, else synthetic layered ones."""

import argparse
import os
from collections.abc import Mapping

from regal_jax.datasets.layered import layered_graph
from regal_jax.datasets.zoo import load
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import results
from regal_jax.studies.comparison import peers


def graphs_of_sizes(data_dir: str | None, sizes: list[int]) -> list[ComputationGraph]:
    """For each size, the test graph of the nearest number of ops in the model zoo or a folder.

    A synthetic graph stands in where none is within 20% of the size.
    """
    pool = load.model_zoo("all" if data_dir else "test", folder=data_dir)
    chosen = []
    for size in sizes:
        nearest = min(pool, key=lambda graph: abs(graph.num_ops - size), default=None)
        if nearest is None or abs(nearest.num_ops - size) > 0.2 * size:
            nearest = layered_graph(size, size)
        chosen.append(nearest)
    return chosen


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0))


def machine() -> str:
    """The cores this process may use."""
    return f"{cores()} CPU cores"


def keep(
    benchmark: str, graph: ComputationGraph, ratios: Mapping[str, float], flags: argparse.Namespace
) -> None:
    """Adds a benchmark's rows to the file of --csv, if there is one."""
    if flags.csv:
        settings = {name: value for name, value in vars(flags).items() if name != "csv"}
        rows = peers.rows(benchmark, graph, ratios, cores(), settings)
        results.append_results(flags.csv, rows, peers.COLUMNS)


def print_table(header: list[str], rows: list[list[object]]) -> None:
    """Right-aligned columns."""
    cells = [header, *[[_cell(value) for value in row] for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for row in cells:
        print("  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)))


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

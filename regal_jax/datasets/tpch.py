"""TPC-H: query plans on a cluster, many at once, on one machine type of 6,000 units.

The benchmark of one-shot priority sampling (Jeon et al. 2023, section 5.2 and appendix C.2), from
PPO-BiHyb (Wang et al. 2021, "A Bi-Level Framework for Learning to Solve Combinatorial Optimization
on Graphs"), whose traces are those of Decima (Mao et al. 2019). An op is a stage of a query: its
demand is the number of its tasks, its duration the mean of its recorded task times.

The data has no stated licence, so the package has none of it. The traces and the lists of queries
are in PPO-BiHyb's public repository (Thinklab-SJTU/PPO-BiHyb, folder ``dag_data/tpch``). This
module reads, from a folder, ``tpch{50,100,150}_{train,test}.jsonl.gz`` with a graph a line:

    {"name": str, "queries": [[size, query], ...] (optional), "resource_limit": 6000,
     "durations": [float, ms, ...], "resources": [int, ...], "edges": [[u, v], ...]}

and, for new graphs, a file of single queries: ``size`` (such as "2g"), ``query`` (1..22),
``durations``, ``resources``, ``edges``. Durations are in ms, and so are makespans. Made from the
traces: a stage's demand is the length of ``first_wave`` and ``rest_wave`` together at the first
executor count; its duration the mean over all executor counts of the times in ``first_wave``
without its fresh ones (a count left empty takes the list before), ``rest_wave`` and
``fresh_durations``. There is no common root.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regal_jax.datasets.task_graphs import read_records, task_graph
from regal_jax.errors import OptionError
from regal_jax.graphs import files
from regal_jax.graphs.computation_graph import ComputationGraph

CAPACITY = 6000
"""Units of the one machine type (PPO-BiHyb)."""

QUERIES = (50, 100, 150)
SPLITS = ("train", "test")


def load_tpch(folder: str | os.PathLike, queries: int, split: str) -> list[ComputationGraph]:
    """TPC-H-50, -100 or -150: 50 graphs to train or 10 to test on, from a folder of files.

    Raises:
      OptionError: for another number of queries or split.
      RegalError: naming file and line.
    """
    if queries not in QUERIES:
        raise OptionError(f"queries is {queries}: one of {', '.join(map(str, QUERIES))}")
    if split not in SPLITS:
        raise OptionError(f"split is {split!r}: train or test")
    return read_records(Path(folder) / f"tpch{queries}_{split}.jsonl.gz", tpch_graph)


def tpch_graph(record: dict[str, Any]) -> ComputationGraph:
    """The graph of one record (see the module's text).

    The list of queries, if it has one, is kept as ``extra[""]["queries"]``.

    Raises:
      GraphError: for columns that are no graph.
      KeyError: for a column that is missing.
    """
    return task_graph(
        record["edges"],
        record["durations"],
        demand=record["resources"],
        capacity=[record["resource_limit"]],
        name=record["name"],
        family="tpch",
        source="TPC-H",
        extra={"": {"queries": record["queries"]}} if "queries" in record else {},
    )


def convert_tpch(source: str | os.PathLike, output: str | os.PathLike) -> None:
    """Writes the graphs of a file of records as ``regal-graph/1``, to .jsonl or .jsonl.gz.

    Raises:
      RegalError: naming file and line, or when ``output`` can't be written.
    """
    files.save_graphs(read_records(source, tpch_graph), output)


def load_queries(path: str | os.PathLike) -> list[dict[str, Any]]:
    """The records of a file of single queries, checked, for ``random_tpch``.

    Raises:
      RegalError: naming file and line.
    """
    return read_records(path, _checked_query)


def random_tpch(
    records: Sequence[dict[str, Any]], num_queries: int, seed: int | Sequence[int]
) -> ComputationGraph:
    """A new graph of ``num_queries`` queries, each drawn uniformly, repeats allowed.

    The lists of the data set look drawn in that way (those of TPC-H-50 without query 22, whose
    records can be left out here, too); how they were drawn is not published.
    Seeds ``(seed, 0)``, ``(seed, 1)``, ... give independent graphs.

    Args:
      records: of ``load_queries``.
      seed: an int or several, as of ``numpy.random.default_rng``.

    Raises:
      OptionError: when there is no query to draw, or none is asked for.
    """
    if num_queries < 1 or not records:
        raise OptionError(f"{num_queries} queries of {len(records)}: at least 1 each is needed")
    drawn = np.random.default_rng(seed).integers(len(records), size=num_queries)
    label = seed if isinstance(seed, int | np.integer) else "-".join(map(str, seed))
    return tpch_graph(
        _union([records[index] for index in drawn]) | {"name": f"tpch {num_queries} {label}"}
    )


def _checked_query(record: dict[str, Any]) -> dict[str, Any]:
    task_graph(record["edges"], record["durations"], demand=record["resources"])
    return {key: record[key] for key in ("size", "query", "durations", "resources", "edges")}


def _union(queries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The record of queries side by side, their ops one query after the other; without a name."""
    sizes = [len(query["durations"]) for query in queries]
    firsts = np.cumsum(sizes) - sizes
    edges = [
        np.reshape(query["edges"], (-1, 2)) + first
        for query, first in zip(queries, firsts, strict=True)
    ]
    return {
        "queries": [[query["size"], query["query"]] for query in queries],
        "resource_limit": CAPACITY,
        "durations": [time for query in queries for time in query["durations"]],
        "resources": [units for query in queries for units in query["resources"]],
        "edges": np.concatenate(edges).astype(np.int64),
    }

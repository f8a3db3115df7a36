"""Task graphs: ops that precede one another, as in data sets of machine problems."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from regal_jax.errors import GraphError, OptionError, RegalError
from regal_jax.graphs import files
from regal_jax.graphs.computation_graph import ComputationGraph, integer_column, ragged_rows

T = TypeVar("T")


class Bounds(NamedTuple):
    """What is known of the least makespan: no schedule is below ``lower``, one is at ``upper``."""

    lower: float
    upper: float


def task_graph(edges: Any, duration: Any, **attributes: Any) -> ComputationGraph:
    """The graph in which op u precedes op v for every edge (u, v).

    Every op has one output tensor, of size 0, which the ops that follow it consume.

    Args:
      edges: int[E, 2], in any order; repeats count once.
      duration: float[O].
      attributes: machine_type, demand, capacity, name, ... of ``ComputationGraph.create``.

    Raises:
      GraphError: for edges that are no pairs of ops, for cycles, and as ``create`` does.
    """
    if not isinstance(duration, Sequence | np.ndarray):
        raise GraphError("ops.duration", "must be a list of numbers")
    num_ops = len(duration)
    edges = np.unique(_edge_column(edges, num_ops), axis=0)
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=np.arange(num_ops),
        size=np.zeros(num_ops, np.int64),
        consumers=ragged_rows(edges[:, 0], edges[:, 1], num_ops),
        duration=duration,
        **attributes,
    )


def _edge_column(edges: Any, num_ops: int) -> np.ndarray:
    """int32[E, 2], checked."""
    try:
        pairs = np.asarray(edges)
    except ValueError:  # rows of different lengths
        pairs = np.zeros(1)
    if pairs.size and (pairs.ndim != 2 or pairs.shape[1] != 2):
        raise GraphError("edges", "must be pairs of op numbers")
    flat = integer_column("edges", pairs.ravel(), np.int32)
    wrong = np.flatnonzero((flat < 0) | (flat >= num_ops))
    if wrong.size:
        edge = wrong[0] // 2
        raise GraphError("edges", f"edge {edge} {pairs[edge].tolist()}: not all in [0, {num_ops})")
    return flat.reshape(-1, 2)


def seed_label(seed: int | Sequence[int]) -> str:
    """A seed in a graph's name."""
    return str(seed) if isinstance(seed, int | np.integer) else "-".join(map(str, seed))


def numbered_graphs(
    make: Callable[[tuple[int, int]], ComputationGraph],
    counts: Mapping[str, int],
    split: str,
    count: int | None,
) -> Iterator[ComputationGraph]:
    """The graphs of a split: those that ``make`` gives for the seeds (place of the split, index).

    Args:
      counts: the full number of graphs by split, which is what None asks for.

    Raises:
      OptionError: for an unknown split or a negative count, before the first graph is asked for.
    """
    if split not in counts:
        raise OptionError(f"split {split!r} is none of {', '.join(counts)}")
    count = counts[split] if count is None else count
    if count < 0:
        raise OptionError(f"count is {count}, less than 0")
    place = list(counts).index(split)
    return (make((place, index)) for index in range(count))


def name_and_text(path_or_text: str | os.PathLike, unnamed: str) -> tuple[str, str]:
    """A text and what to call it in messages: a file's path, ``unnamed`` for several lines.

    Raises:
      RegalError: for a file that can't be read.
    """
    if isinstance(path_or_text, str) and "\n" in path_or_text:
        return unnamed, path_or_text
    return str(path_or_text), files.read_text(Path(path_or_text))


def read_records(path: str | os.PathLike, build: Callable[[dict[str, Any]], T]) -> list[T]:
    """``build`` of each line of a ``.jsonl`` or ``.jsonl.gz`` file, one JSON object a line.

    Raises:
      RegalError: naming file and line, for what is no JSON object, lacks a key that ``build`` asks
        for, has a ``name`` that is no string, or is a GraphError to ``build``.
    """
    lines = files.read_text(Path(path)).splitlines()
    return [
        _build(f"{path}, line {number}", line, build)
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]


def _build(where: str, line: str, build: Callable[[dict[str, Any]], T]) -> T:
    record = files.parse_json(where, line)
    if not isinstance(record, dict) or not isinstance(record.get("name", ""), str):
        raise RegalError(f"{where}: must be a JSON object, and its name a string")
    try:
        with files.located(where):
            return build(record)
    except KeyError as error:
        raise RegalError(f"{where}: {error.args[0]} is required") from None

"""Instances of the Standard Task Graph set (Tobita and Kasahara 2002), from a file a set.

A file has one object a line: ``name``; ``durations``; ``edges``, pairs of tasks; by number of
processors ``published``, the [lower, upper] of STG's page, and ``verified_optimum``, the length of
a schedule proven optimal, or null.
"""

from pathlib import Path
from typing import Any, NamedTuple

import regal_jax as rj
from regal_jax.errors import RegalError
from regal_jax.graphs import files


class Known(NamedTuple):
    """What is known of one problem: a length that no schedule beats, and whether one reaches it."""

    bound: float
    is_optimum: bool


class Instance(NamedTuple):
    """A task graph of a set, and what is known of it by number of processors."""

    set_name: str
    graph: rj.ComputationGraph
    known: dict[int, Known]


def read_set(folder: Path, name: str) -> list[Instance]:
    """The problems of one file. Raises RegalError naming file and line."""
    path = folder / f"{name}.jsonl.gz"
    instances = []
    for number, line in enumerate(files.read_text(path).splitlines(), 1):
        where = f"{path}, line {number}"
        try:
            with files.located(where):
                instances.append(_instance(name, files.parse_json(where, line)))
        except KeyError as error:
            raise RegalError(f"{where}: {error.args[0]} is required") from None
    return instances


def _instance(set_name: str, record: dict[str, Any]) -> Instance:
    consumers: list[list[int]] = [[] for _ in record["durations"]]
    for before, after in record["edges"]:
        consumers[before].append(after)
    graph = rj.ComputationGraph.create(
        num_ops=len(consumers),
        producer=range(len(consumers)),
        size=[0] * len(consumers),
        consumers=consumers,
        duration=record["durations"],
        name=record["name"],
        source="Standard Task Graph set",
    )
    verified = record["verified_optimum"]
    return Instance(
        set_name,
        graph,
        {int(p): _known(verified[p], *span) for p, span in record["published"].items()},
    )


def _known(verified: float | None, lower: float, upper: float) -> Known:
    """The optimum proven since, or else what is published."""
    return Known(lower, lower == upper) if verified is None else Known(verified, True)

"""Methods on the Standard Task Graph set (Tobita and Kasahara 2002), whose optima are known.

A set's file has one object a line: ``name``; ``durations``; ``edges``, pairs of tasks; by number of
processors ``published``, the [lower, upper] of STG's page, and ``verified_optimum``, the length of
a schedule proven optimal, or null.
"""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regal_jax.datasets.task_graphs import Bounds, read_records, task_graph
from regal_jax.errors import GraphError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting.tables import text_table
from regal_jax.search.list_scheduling.heuristics import HEURISTICS
from regal_jax.studies.comparison import searches
from regal_jax.studies.comparison.searches import PlatformRule, Run
from regal_jax.studies.flags import option
from regal_jax.studies.one_shot.comparison import check
from regal_jax.studies.one_shot.tables import gaps
from regal_jax.studies.settings import Executor, Output


@dataclass(frozen=True, kw_only=True)
class Settings(Output, Executor):
    """Which sets, and what to run on them."""

    data_dir: str = option("data/stg", "Folder of the sets.")
    sets: tuple[str, ...] = option(("stg50", "stg100", "stg300"), "Files without their suffix.")
    max_graphs: int = option(1000, "Most graphs of a set.", least=1)
    processors: tuple[int, ...] = option((2, 4, 8, 16), "Numbers of processors.")
    methods: tuple[str, ...] = option(tuple(HEURISTICS), "List heuristics, and other methods.")
    evaluations: int = option(5000, "Budget of the others.", least=1)
    seeds: int = option(1, "Seeds of the others.", least=1)


def study(settings: Settings, folder: Path) -> None:
    """Runs every method on every problem; prints a table a number of processors.

    Raises RegalError for a makespan below what is known: the cost or the data must be wrong.
    """
    runs = [_run(name, settings.evaluations) for name in settings.methods]
    for processors in settings.processors:
        problems = {name: read_set(settings, name, processors) for name in settings.sets}
        bounds = {graph.name: known for some in problems.values() for graph, known in some}
        rows = searches.compare_random(
            {name: [graph for graph, _ in some] for name, some in problems.items()},
            runs,
            lambda run: run.method in HEURISTICS,
            seeds=settings.seeds,
            title=f"{processors} processors",
            path=folder / "results.csv",
            objective="makespan",
            platform=PlatformRule(num_devices=processors),
            executor=settings.executor,
        )
        check(rows, bounds)
        best = {name: known.upper for name, known in bounds.items()}
        print(f"{processors} processors: % over the best known makespan, mean and 95 % interval")
        print(text_table(gaps(rows, best)) + "\n")


def _run(method: str, evaluations: int) -> Run:
    if method in HEURISTICS:
        return Run(method, method, 1)
    return Run(f"{method} {evaluations}", method, evaluations)


def read_set(
    settings: Settings, name: str, processors: int
) -> list[tuple[ComputationGraph, Bounds]]:
    """The graphs of one file, and what is known of each on so many processors. RegalError."""
    path = Path(settings.data_dir) / f"{name}.jsonl.gz"
    return read_records(path, functools.partial(_problem, processors))[: settings.max_graphs]


def _problem(processors: int, record: dict[str, Any]) -> tuple[ComputationGraph, Bounds]:
    """A proven optimum counts for more than what is published."""
    graph = task_graph(
        record["edges"],
        record["durations"],
        name=record["name"],
        source="Standard Task Graph set",
    )
    if str(processors) not in record["published"]:
        raise GraphError("published", f"nothing is known for {processors} processors")
    optimum = record["verified_optimum"].get(str(processors))
    lower, upper = record["published"][str(processors)]
    known = (lower, upper) if optimum is None else (optimum, optimum)
    return graph, Bounds(*map(float, known))

"""Builds the model zoo from installed packages, model by model, each with a time limit.

The folder it fills: ``graphs/SOURCE/NAME.jsonl.gz``, one ``regal-graph/1`` object a file, and
``failures.csv`` with a reason for every graph that could not be made. What is there is not made
again, so an interrupted build goes on where it stopped.
"""

import collections
import csv
import functools
import importlib
import io
import multiprocessing
import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from regal_jax.datasets.zoo.recipes import recipe as recipes
from regal_jax.errors import MissingDependencyError, OptionError, RegalError
from regal_jax.graphs import files
from regal_jax.graphs.computation_graph import ComputationGraph

SOURCES = (
    *("timm", "torchvision", "pytorchcv", "smp", "monai", "diffusers", "transformers"),
    *("flax", "jax", "haiku", "keras", "xla", "onnx"),
)
"""Names of the sources, each a module of ``recipes``."""

_MODULES = {"jax": "jax_programs", "xla": "xla_modules", "onnx": "onnx_files"}


class Outcome(NamedTuple):
    """What became of one graph; ``reason`` is empty if it was made."""

    source: str
    name: str
    mode: str
    reason: str
    seconds: float


def find_source(name: str) -> recipes.Source:
    """The source of that name. Raises OptionError."""
    if name not in SOURCES:
        raise OptionError(f"unknown source {name!r}: {', '.join(SOURCES)}")
    module = _MODULES.get(name, f"{name}_models")
    return importlib.import_module(f"regal_jax.datasets.zoo.recipes.{module}").SOURCE


def build(
    folder: str | os.PathLike,
    sources: Sequence[str],
    *,
    modes: Sequence[str],
    seconds_per_model: float,
    workers: int,
    max_ops: int,
    models: str = "",
    on_outcome: Callable[[Outcome, int, int], None] = lambda outcome, done, total: None,
) -> None:
    """Makes every graph of the sources that the folder lacks.

    Args:
      folder: made if it doesn't exist.
      modes: of ``recipe.MODES``, those to make.
      seconds_per_model: for all modes of one model together; then its process is stopped.
      workers: processes.
      max_ops: larger graphs count as failures, with that reason.
      models: a regular expression that names must match; empty for all.
      on_outcome: called with each outcome, and the models done and to do.

    Raises:
      MissingDependencyError: without pebble, which stops processes in time.
      RegalError: a source whose packages aren't installed, or a folder that can't be written.
    """
    try:
        import pebble
    except ImportError:
        raise MissingDependencyError("pebble", "zoo") from None
    folder = Path(folder)
    log = FailureLog(folder / "failures.csv")
    tasks = [task for name in sources for task in _tasks(name, folder, log, modes, models)]
    tasks.sort(key=lambda task: task.rank)
    context = multiprocessing.get_context("spawn")
    with pebble.ProcessPool(max_workers=workers, max_tasks=200, context=context) as pool:
        futures = [
            pool.schedule(_build_model, [task, folder, max_ops], timeout=seconds_per_model)
            for task in tasks
        ]
        for done, (task, future) in enumerate(zip(tasks, futures, strict=True), 1):
            for outcome in _outcomes(task, future, seconds_per_model):
                log.add(outcome)
                on_outcome(outcome, done, len(tasks))


class Task(NamedTuple):
    """A model to make: its place among its source's recipes, and the modes it lacks.

    ``rank``: how many of its family come before it. Models are made by rank, so that a build that
    is stopped has a bit of every family.
    """

    source: str
    place: int
    name: str
    modes: tuple[str, ...]
    rank: int


class FailureLog:
    """``failures.csv``: appended to, and read when a build goes on. Raises RegalError."""

    def __init__(self, path: Path):
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_text() if path.exists() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise RegalError(f"{path}: can't be used for the failures: {error}") from None
        rows = list(csv.DictReader(io.StringIO(text)))
        self.known = {(row["source"], row["name"], row["mode"]) for row in rows}

    def add(self, outcome: Outcome) -> None:
        if not outcome.reason:
            return
        buffer = io.StringIO()
        writer = csv.writer(buffer)
        if not self.path.exists():
            writer.writerow(Outcome._fields)
        writer.writerow(outcome._replace(seconds=round(outcome.seconds, 2)))
        files.append(self.path, buffer.getvalue().encode())


def _tasks(
    source: str, folder: Path, log: FailureLog, modes: Sequence[str], models: str
) -> Iterator[Task]:
    before: collections.Counter[str] = collections.Counter()
    for place, recipe in enumerate(_recipes(source)):
        rank, before[recipe.family] = before[recipe.family], before[recipe.family] + 1
        lacking = tuple(
            mode
            for mode in recipe.modes
            if mode in modes
            and (source, recipe.name, mode) not in log.known
            and not _graph_file(folder, source, recipe.name, mode).exists()
        )
        if lacking and re.search(models, recipe.name):
            yield Task(source, place, recipe.name, lacking, rank)


@functools.cache
def _recipes(source: str) -> tuple[recipes.Recipe, ...]:
    try:
        return tuple(find_source(source).recipes())
    except ImportError as error:
        raise RegalError(f"source {source}: {error}; install its packages") from None


def _build_model(task: Task, folder: Path, max_ops: int) -> list[Outcome]:
    """Runs in a process of its own."""
    warnings.filterwarnings("ignore")
    source, recipe = find_source(task.source), _recipes(task.source)[task.place]
    outcomes = []
    for mode in task.modes:
        start, reason = time.perf_counter(), ""
        try:
            graph = recipes.build(source, recipe, mode)
            reason = _refusal(graph, max_ops)
            if not reason:
                _save(graph, _graph_file(folder, task.source, task.name, mode))
        except Exception as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        seconds = time.perf_counter() - start
        outcomes.append(Outcome(task.source, task.name, mode, reason, seconds))
    return outcomes


def _refusal(graph: ComputationGraph, max_ops: int) -> str:
    if graph.num_ops > max_ops:
        return f"{graph.num_ops} ops are more than {max_ops}"
    return "" if graph.num_ops > 1 else "fewer than two ops"


def _save(graph: ComputationGraph, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    files.save_graph(graph, path)


def _graph_file(folder: Path, source: str, name: str, mode: str) -> Path:
    return folder / "graphs" / source / f"{name.replace('/', '~')}~{mode}.jsonl.gz"


def _outcomes(task: Task, future, limit: float) -> Iterable[Outcome]:
    """What a process reported, or why it didn't."""
    try:
        return future.result()
    except TimeoutError:
        reason = f"more than {limit:g} s"
    except Exception as error:  # a process that died
        reason = f"its process died ({type(error).__name__})"
    return [Outcome(task.source, task.name, mode, reason, limit) for mode in task.modes]

"""Every method on pipelines under memory caps: rows of a CSV, resumable, and their tables."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from regal_jax import api
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.options import Options
from regal_jax.reporting import results, tables
from regal_jax.studies import keys
from regal_jax.studies.flags import check_names, option
from regal_jax.studies.kept import KEY, KeptRows
from regal_jax.studies.regal import pipelines
from regal_jax.studies.regal.pipelines import PUBLISHED, Published
from regal_jax.studies.settings import Output

COLUMNS = ("schedule", "makespan", "peak", "cap", "verdict")
_LAST_METRIC = "peak"
_EXTRA_COLUMNS = (KEY, "capacity", "budget")


@dataclass(frozen=True, kw_only=True)
class Settings(Output):
    """Which pipelines, caps and methods."""

    stages: tuple[int, ...] = option((2, 4), "Numbers of stages, and of devices.")
    microbatches: tuple[int, ...] = option((4, 8), "Numbers of microbatches.")
    caps: tuple[str, ...] = option(("1f1b", "zb-h2"), "Schedules whose memory is the cap.")
    methods: tuple[str, ...] = option(
        ("random_search", "brkga", "etf", "local_search", "auto"), "What to run."
    )
    evaluations: int = option(5000, "Budget of each search.")
    seeds: int = option(1, "Seeds of each search.")


class Task(NamedTuple):
    """A pipeline within the memory of a published schedule of it."""

    stages: int
    microbatches: int
    cap: str

    @property
    def name(self) -> str:
        """In the rows' column "graph"."""
        return f"{self.stages}x{self.microbatches} within {self.cap}"


class Attempt(NamedTuple):
    """What a method has found: makespan [us], and bytes of the fullest device."""

    method: str
    seed: int
    makespan: float
    peak: int


def report(settings: Settings, path: Path) -> None:
    """Prints a table a pipeline, and which methods reach each published schedule.

    What the file at ``path`` holds already is not run again. OptionError for an unknown cap.
    """
    check_names("caps", settings.caps, PUBLISHED)
    verdicts: dict[str, list[str]] = defaultdict(list)
    kept = KeptRows(path, _LAST_METRIC, _EXTRA_COLUMNS)
    for stages in settings.stages:
        for microbatches in settings.microbatches:
            known = pipelines.published(stages, microbatches)
            lines = [_published_line(name, each) for name, each in known.items()]
            for cap in settings.caps:
                task = Task(stages, microbatches, cap)
                for attempt in _attempts(task, known[cap].peak_memory, settings, kept):
                    line = _line(attempt, task, known)
                    verdicts[attempt.method].append(line["verdict"])
                    lines.append(line)
            print(f"\n{stages} stages, {microbatches} microbatches")
            print(tables.text_table(lines, COLUMNS))
    print()
    for name in PUBLISHED:
        print(pipelines.answer(settings.methods, verdicts, name))


def _attempts(task: Task, capacity: int, settings: Settings, kept: KeptRows) -> Iterator[Attempt]:
    """One a method and seed, kept or run and written; a method that can't run is left out, after it
    was printed why."""
    for method in settings.methods:
        for seed in range(settings.seeds):
            options = pipelines.options(
                task.stages, capacity, method, evaluations=settings.evaluations, seed=seed
            )
            try:
                yield _attempt(task, options, kept)
            except OptionError as error:
                print(f"{method} is left out: {error}")
                break


def _attempt(task: Task, options: Options, kept: KeptRows) -> Attempt:
    graph = pipelines.training_step(task.stages, task.microbatches)
    key = keys.key(task=task, graph=graph, options=options)
    rows = kept.rows(key, lambda: _rows(task, graph, options))
    value = {row["metric"]: row["value"] for row in rows}
    return Attempt(
        rows[0]["method"], rows[0]["seed"], float(value["makespan"]), int(value[_LAST_METRIC])
    )


def _rows(task: Task, graph: ComputationGraph, options: Options) -> list[results.Row]:
    schedule = api.optimize(graph, options)
    common: results.Row = {"graph": task.name, "method": options.method, "seed": options.seed}
    common |= {"capacity": options.memory_capacity, "budget": options.evaluations}
    values = {"makespan": float(schedule.makespan or 0.0), _LAST_METRIC: max(schedule.peak_memory)}
    return [common | {"metric": name, "value": value} for name, value in values.items()]


def _published_line(name: str, schedule: Published) -> dict:
    return {"schedule": name, "makespan": f"{schedule.makespan:g}", "peak": schedule.peak_memory}


def _line(attempt: Attempt, task: Task, known: Mapping[str, Published]) -> dict:
    capacity = known[task.cap].peak_memory
    words = pipelines.verdict(attempt.makespan, attempt.peak, known, capacity)
    line = {"schedule": attempt.method, "makespan": f"{attempt.makespan:g}", "peak": attempt.peak}
    return line | {"cap": task.cap, "verdict": words}

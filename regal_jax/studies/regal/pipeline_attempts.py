"""Every method on pipelines under memory caps: rows of a CSV, resumable, and their tables."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from regal_jax.errors import OptionError
from regal_jax.reporting import results, tables
from regal_jax.studies.flags import check_names, option
from regal_jax.studies.regal import pipelines
from regal_jax.studies.regal.pipelines import PUBLISHED, Published
from regal_jax.studies.settings import Output

COLUMNS = ("schedule", "makespan", "peak", "cap", "verdict")


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
    rows = results.read_results(path, missing_ok=True)
    for stages in settings.stages:
        for microbatches in settings.microbatches:
            known = pipelines.published(stages, microbatches)
            lines = [_published_line(name, each) for name, each in known.items()]
            for cap in settings.caps:
                task = Task(stages, microbatches, cap)
                for attempt in _attempts(task, known[cap].peak_memory, settings, rows, path):
                    line = _line(attempt, task, known)
                    verdicts[attempt.method].append(line["verdict"])
                    lines.append(line)
            print(f"\n{stages} stages, {microbatches} microbatches")
            print(tables.text_table(lines, COLUMNS))
    print()
    for name in PUBLISHED:
        print(pipelines.answer(settings.methods, verdicts, name))


def _attempts(
    task: Task, capacity: int, settings: Settings, rows: Sequence[results.Row], path: Path
) -> Iterator[Attempt]:
    """One a method and seed, by ``rows`` or run and written; a method that can't run is left out,
    after it was printed why."""
    found = {
        (row["method"], int(row["seed"]), row["metric"]): float(row["value"])
        for row in rows
        if row["graph"] == task.name
    }
    for method in settings.methods:
        for seed in range(settings.seeds):
            if (method, seed, "peak") in found:
                makespan, peak = (found[method, seed, name] for name in ("makespan", "peak"))
                yield Attempt(method, seed, makespan, int(peak))
                continue
            try:
                yield _run(task, capacity, method, seed, settings.evaluations, path)
            except OptionError as error:
                print(f"{method} is left out: {error}")
                break


def _run(
    task: Task, capacity: int, method: str, seed: int, evaluations: int, path: Path
) -> Attempt:
    stages, microbatches, _ = task
    schedule = pipelines.attempt(
        stages, microbatches, capacity, method, evaluations=evaluations, seed=seed
    )
    makespan, peak = float(schedule.makespan or 0.0), max(schedule.peak_memory)
    common: results.Row = {"graph": task.name, "method": method, "seed": seed}
    values = {"makespan": makespan, "peak": peak}
    results.append_results(path, [common | {"metric": k, "value": v} for k, v in values.items()])
    return Attempt(method, seed, makespan, peak)


def _published_line(name: str, schedule: Published) -> dict:
    return {"schedule": name, "makespan": f"{schedule.makespan:g}", "peak": schedule.peak_memory}


def _line(attempt: Attempt, task: Task, known: Mapping[str, Published]) -> dict:
    capacity = known[task.cap].peak_memory
    words = pipelines.verdict(attempt.makespan, attempt.peak, known, capacity)
    line = {"schedule": attempt.method, "makespan": f"{attempt.makespan:g}", "peak": attempt.peak}
    return line | {"cap": task.cap, "verdict": words}

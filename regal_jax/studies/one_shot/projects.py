"""Ways to make a schedule of priorities, on projects whose best makespans are known."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from regal_jax.datasets.project_scheduling import load_psplib
from regal_jax.datasets.task_graphs import Bounds
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.rcpsp.rules import RULES
from regal_jax.studies.comparison.searches import Run
from regal_jax.studies.flags import option
from regal_jax.studies.one_shot import comparison, tables
from regal_jax.studies.one_shot.runs import baseline, sampled
from regal_jax.studies.one_shot.settings import LEARNED, Comparison
from regal_jax.studies.settings import GivenPolicy, Output, policy_file


@dataclass(frozen=True, kw_only=True)
class Settings(Output, GivenPolicy, Comparison):
    """Which projects, and ways to make a schedule."""

    data_dir: str = option("data/psplib", "Folder of the sets.")
    sets: tuple[str, ...] = option(("j30", "j60", "j120"), "Files without their suffix.", least=1)
    test_graphs: int = option(1000, "Most instances of a set.")
    generations: tuple[str, ...] = option(
        ("parallel", "serial"), "Ways to make a schedule.", least=1
    )
    others: tuple[str, ...] = option(
        ("justification",), "Methods that have their own way, such as cp_sat."
    )
    methods: tuple[str, ...] = option(("random_search", "brkga"), "What to run.")


class Projects(NamedTuple):
    """Graphs by set, and what is known of each by its name."""

    graphs: dict[str, list[ComputationGraph]]
    bounds: dict[str, Bounds]


def read(settings: Settings) -> Projects:
    """The instances of the sets."""
    found = {
        name: load_psplib(settings.data_dir, name)[: settings.test_graphs] for name in settings.sets
    }
    return Projects(
        {name: [graph for graph, _ in some] for name, some in found.items()},
        {graph.name: known for some in found.values() for graph, known in some},
    )


def runs(settings: Settings) -> list[Run]:
    """All rules and --methods with each generation, the others, and a policy that is given."""
    found = [
        baseline(name, settings, {"generation": generation})
        for generation in settings.generations
        for name in (*RULES, *settings.methods)
    ]
    found += [baseline(method, settings) for method in settings.others]
    if settings.policy is not None:
        found += sampled(LEARNED, LEARNED, policy_file(settings.policy), settings)
    return found


def report(
    rows: Sequence[dict], projects: Projects, some: Sequence[Run], generations: Sequence[str]
) -> None:
    """Prints a table a set, with one line for the best rule of each generation."""
    best_known = {name: bound.upper for name, bound in projects.bounds.items()}
    rows, labels = list(rows), [f"best rule {generation}" for generation in generations]
    for generation, label in zip(generations, labels, strict=True):
        rows += tables.best_of(rows, [f"{rule} {generation}" for rule in RULES], label)
    labels += [run.label for run in some if run.method not in RULES]
    for setting, graphs in projects.graphs.items():
        lines = tables.summary(rows, setting, graphs, labels, best_known)
        title = f"{setting}: makespan, gap from the best known; closed: of the first line's gap"
        print(tables.text(title, lines, baseline=labels[0]) + "\n")


def study(settings: Settings, folder: Path) -> None:
    """Runs everything on every project, and prints the tables."""
    projects, some = read(settings), runs(settings)
    by_setting = dict.fromkeys(projects.graphs, some)
    rows = comparison.compare(projects.graphs, by_setting, folder, settings, projects.bounds)
    report(rows, projects, some, settings.generations)

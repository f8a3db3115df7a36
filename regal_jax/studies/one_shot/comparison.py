"""Comparisons on machine types: rows of every run, tables, pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from regal_jax import api
from regal_jax.datasets.task_graphs import Bounds
from regal_jax.errors import OptionError, RegalError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import figures, plots, progress
from regal_jax.studies.comparison import searches
from regal_jax.studies.comparison.searches import Run
from regal_jax.studies.one_shot import runs, tables, training
from regal_jax.studies.one_shot.corpora import GraphCorpus
from regal_jax.studies.one_shot.runs import NONE
from regal_jax.studies.one_shot.settings import LEARNED, Settings
from regal_jax.studies.one_shot.tables import MachineLine
from regal_jax.studies.topoformer import plots as topoformer_plots

Graphs = Mapping[str, Sequence[ComputationGraph]]
"""Test graphs by setting."""
Runs = Mapping[str, Sequence[Run]]
"""What is run, by setting."""


def run(
    graphs: Graphs,
    corpora: Mapping[str, GraphCorpus],
    folder: Path,
    settings: Settings,
    *,
    bounds: Mapping[str, Bounds] = NONE,
    best_known: Mapping[str, float] | None = None,
    published: tables.Published = NONE,
    speedup: bool = False,
) -> None:
    """Makes the policies, runs everything that is asked for, and reports it."""
    policies = training.policies(corpora, folder, settings)
    by_setting = {setting: runs.runs(policies.get(setting), settings) for setting in graphs}
    rows = compare(graphs, by_setting, folder, settings.seeds, bounds)
    lines = report(
        rows, graphs, by_setting, best_known=best_known, published=published, speedup=speedup
    )
    draw(lines, graphs, by_setting, folder, best_known=best_known)


def compare(
    graphs: Graphs,
    by_setting: Runs,
    folder: Path,
    seeds: int,
    bounds: Mapping[str, Bounds] = NONE,
) -> list[dict]:
    """Rows of ``searches.compare`` for each setting's runs, with so many seeds for random methods.

    Seconds are those of ``optimize``: features and reading the policy count. Compilation doesn't,
    since another search on the same graph comes first; except with a time limit, and in ``genetic``
    searches, of which the first graph of a size has it.

    Raises:
      OptionError: where there are no graphs.
      RegalError: for a makespan below a known bound: the cost or the data must be wrong.
    """
    if not by_setting or not all(map(graphs.get, by_setting)):
        raise OptionError("settings, test_graphs: a setting has no graph to test on")
    rows: list[dict] = []
    for setting, some in by_setting.items():
        own = {setting: graphs[setting]}
        fixed = [run for run in some if runs.is_fixed(run)]
        random = [run for run in some if not runs.is_fixed(run)]
        for part, count in ((fixed, 1), (random, seeds)):
            with progress.bar(setting, count * len(part) * len(graphs[setting])) as update:
                rows += searches.compare(
                    own,
                    part,
                    seeds=count,
                    path=folder / "results.csv",
                    objective="makespan",
                    platform=searches.PlatformRule(num_devices=None),
                    on_progress=lambda done, total: update(done),
                )
    check(rows, bounds)
    return rows


def check(rows: Sequence[dict], bounds: Mapping[str, Bounds]) -> None:
    """Raises RegalError for a makespan that is too good to be true."""
    for row in rows:
        known = bounds.get(row["graph"])
        if row["metric"] == "cost" and known is not None and row["value"] < known.lower:
            raise RegalError(
                f"{row['method']} on {row['graph']}: makespan {row['value']:g} is below the known"
                f" bound {known.lower:g}; the cost or the data must be wrong"
            )


def report(
    rows: Sequence[dict],
    graphs: Graphs,
    by_setting: Runs,
    *,
    best_known: Mapping[str, float] | None = None,
    published: tables.Published = NONE,
    speedup: bool = False,
) -> dict[str, list[MachineLine]]:
    """Prints a table for every setting; returns its lines."""
    lines = {}
    for setting, some in by_setting.items():
        labels = [run.label for run in some]
        lines[setting] = tables.summary(rows, setting, graphs[setting], labels, best_known)
        title = f"{setting}: {'speedup' if speedup else 'makespan'}, gap from {origin(best_known)}"
        beside = published.get(setting)
        print(tables.text(title, lines[setting], speedup=speedup, published=beside) + "\n")
    return lines


def draw(
    lines: Mapping[str, Sequence[MachineLine]],
    graphs: Graphs,
    by_setting: Runs,
    folder: Path,
    *,
    best_known: Mapping[str, float] | None = None,
) -> None:
    """Gaps against seconds, and the first graph's schedule, where matplotlib is there."""
    dots = {name: tables.gaps_and_times(some) for name, some in lines.items()}
    labels = {"reference": origin(best_known), "title": "Makespan and run time"}
    figures.drawn(topoformer_plots.plot_gap_against_time, dots, folder / "gaps.png", **labels)
    setting, some = next(iter(by_setting.items()))
    figures.drawn(_draw_schedule, graphs[setting][0], some, folder / "schedule.png")


def origin(best_known: Mapping[str, float] | None) -> str:
    """What gaps are measured from."""
    return "the lower bound" if best_known is None else "the best known"


def _draw_schedule(graph: ComputationGraph, some: Sequence[Run], path: Path) -> None:
    """The schedule of the last run of a policy; of the last run at all, if there is no policy."""
    run = ([run for run in some if run.method == LEARNED] or list(some))[-1]
    found = api.optimize(
        graph,
        objective="makespan",
        method=run.method,
        evaluations=run.evaluations,
        **run.options,
    )
    plots.plot_gantt(graph, found, path)

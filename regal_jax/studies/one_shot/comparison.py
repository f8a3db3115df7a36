"""Comparisons on machine types: rows of every run, and tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from regal_jax.datasets.task_graphs import Bounds
from regal_jax.errors import OptionError, RegalError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.studies.comparison import searches
from regal_jax.studies.comparison.searches import Run
from regal_jax.studies.one_shot import runs, tables, training
from regal_jax.studies.one_shot.corpora import GraphCorpus
from regal_jax.studies.one_shot.runs import NONE
from regal_jax.studies.one_shot.settings import Comparison, Settings

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
    published: tables.Published = NONE,
    speedup: bool = False,
) -> None:
    """Makes the policies, runs everything that is asked for, and reports it."""
    policies = training.policies(corpora, folder, settings)
    by_setting = {setting: runs.runs(policies.get(setting), settings) for setting in graphs}
    rows = compare(graphs, by_setting, folder, settings, bounds)
    report(rows, graphs, by_setting, bounds, published=published, speedup=speedup)


def compare(
    graphs: Graphs,
    by_setting: Runs,
    folder: Path,
    settings: Comparison,
    bounds: Mapping[str, Bounds] = NONE,
) -> list[dict]:
    """Rows of ``searches.compare`` for each setting's runs, with --seeds for random methods.

    Compilation isn't in the seconds, except with a time limit, and in ``genetic`` searches, of
    which the first graph of a size has it.

    Raises:
      OptionError: where there are no graphs.
      RegalError: for a makespan below a known bound: the cost or the data must be wrong.
    """
    if not by_setting or not all(map(graphs.get, by_setting)):
        raise OptionError("settings, test_graphs: a setting has no graph to test on")
    rows: list[dict] = []
    for setting, some in by_setting.items():
        rows += searches.compare_random(
            {setting: graphs[setting]},
            some,
            runs.is_fixed,
            seeds=settings.seeds,
            title=setting,
            path=folder / "results.csv",
            objective="makespan",
            platform=searches.PlatformRule(num_devices=None),
            executor=settings.executor,
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
    bounds: Mapping[str, Bounds] = NONE,
    *,
    published: tables.Published = NONE,
    speedup: bool = False,
) -> None:
    """Prints a table for every setting; gaps are from the best known makespans, if there are."""
    best_known = {name: bound.upper for name, bound in bounds.items()} or None
    origin = "the best known" if best_known else "the lower bound"
    for setting, some in by_setting.items():
        labels = [run.label for run in some]
        lines = tables.summary(rows, setting, graphs[setting], labels, best_known)
        title = f"{setting}: {'speedup' if speedup else 'makespan'}, gap from {origin}"
        print(tables.text(title, lines, speedup=speedup, published=published.get(setting)) + "\n")

"""Ways to make a schedule of priorities, on projects whose best makespans are known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from regal_jax.datasets.project_scheduling import load_psplib
from regal_jax.datasets.task_graphs import Bounds
from regal_jax.reporting import results
from regal_jax.reporting.results import Row
from regal_jax.reporting.tables import text_table
from regal_jax.search.rcpsp.rules import RULES
from regal_jax.studies import keys
from regal_jax.studies.comparison.searches import EXTRA_COLUMNS, Run
from regal_jax.studies.flags import option
from regal_jax.studies.kept import KEY
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


def study(settings: Settings, folder: Path) -> None:
    """Runs everything on every project, and prints how far it is from the best known makespans;
    ``table.csv`` has the rows of that table."""
    problems = {
        name: load_psplib(settings.data_dir, name)[: settings.test_graphs] for name in settings.sets
    }
    graphs = {name: [graph for graph, _ in some] for name, some in problems.items()}
    bounds = {graph.name: known for some in problems.values() for graph, known in some}
    by_setting = dict.fromkeys(graphs, runs(settings))
    rows = comparison.compare(graphs, by_setting, folder, settings, bounds)
    best = [
        tables.best_of(rows, [f"{rule} {generation}" for rule in RULES], f"best rule {generation}")
        for generation in settings.generations
    ]
    rows = [row for row in rows if row["method"].split()[0] not in RULES]
    costs = [row for row in (*chain(*best), *rows) if row["metric"] == "cost"]
    costs += known_rows(costs, bounds)
    results.write_results(folder / "table.csv", costs, EXTRA_COLUMNS)
    print("% over the best known makespan, mean and 95 % interval")
    print(text_table(tables.gaps(costs, {})))


def known_rows(rows: Sequence[Row], bounds: Mapping[str, Bounds]) -> list[Row]:
    """The best known makespans, as rows of one more method."""
    of_graph = {row["graph"]: row for row in rows}
    known = {graph: bounds[graph].upper for graph in of_graph}
    own = {"method": "best known", "seed": 0, "evaluations": "", "budget": "", "policy": ""}
    return [
        row | own | {"value": known[graph], KEY: keys.key(graph=graph, best_known=known[graph])}
        for graph, row in of_graph.items()
    ]

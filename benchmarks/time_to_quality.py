"""Costs by seconds: ``auto`` beside pymoo's BRKGA, OR-Tools' CP-SAT and SAGA's HEFT.

    pip install pymoo ortools pandas tqdm pysmt pydantic
    pip install --no-deps anrg-saga
    taskset --cpu-list 0 python benchmarks/time_to_quality.py

Graphs are of the model zoo's test split, evenly over sizes; all contenders run in turns, in one
process. Rows go to docs/results/time_to_quality.csv (an interrupted run goes on), and
experiments/results_pages.py makes the tables of them.
"""

import argparse
import functools
import importlib.metadata
import itertools
from collections.abc import Iterable, Iterator

import contenders
import instances

from regal_jax import datasets
from regal_jax.datasets.corpora import evenly_by_size
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.schedule import Objective
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import progress
from regal_jax.studies import keys
from regal_jax.studies.comparison import curves
from regal_jax.studies.comparison.searches import PlatformRule, make_room
from regal_jax.studies.kept import KeptRows

CONTENDERS = {
    "auto": (contenders.auto, "jax"),
    "pymoo brkga": (contenders.pymoo_brkga, "pymoo"),
    "ortools cp_sat": (contenders.cp_sat, "ortools"),
    "saga heft": (contenders.saga_heft, "anrg-saga"),
}
"""By name: what runs, and the package that its results depend on."""
CASES: dict[str, tuple[Objective, int, float]] = {
    "peak memory, D = 1": ("peak_memory", 1, 0.0),
    "peak memory, D = 2": ("peak_memory", 2, 0.0),
    "peak memory, D = 4": ("peak_memory", 4, 0.0),
    "makespan, D = 2": ("makespan", 2, 0.3),
    "makespan, D = 4": ("makespan", 4, 0.3),
}
"""Objective, devices, and what a transfer takes, in mean durations of ops (``PlatformRule``).
On one device every schedule without pauses has the same makespan."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", type=int, default=40)
    parser.add_argument("--least_ops", type=int, default=40)
    parser.add_argument("--most_ops", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--contenders", nargs="*", default=list(CONTENDERS))
    parser.add_argument("--path", default="docs/results/time_to_quality.csv")
    flags = parser.parse_args()
    zoo = datasets.model_zoo(split="test")
    fitting = [graph for graph in zoo if flags.least_ops <= graph.num_ops <= flags.most_ops]
    kept = KeptRows(flags.path, curves.LAST_METRIC, curves.COLUMNS)
    todo = list(races(evenly_by_size(fitting, flags.graphs), flags))
    with progress.bar("races", len(todo)) as update:
        for count, (key, common, problem, name) in enumerate(todo, 1):
            kept.rows(key, functools.partial(rows, common, problem, name, flags.seconds))
            update(count)
    kept.arrange(key for key, *_ in todo)


def races(
    graphs: Iterable[ComputationGraph], flags: argparse.Namespace
) -> Iterator[tuple[str, dict, PlacementProblem, str]]:
    """(key, what its rows say of it, problem, contender) of each race."""
    for case, graph, name in itertools.product(flags.cases, graphs, flags.contenders):
        objective, devices, share = CASES[case]
        if name == "saga heft" and objective != "makespan":
            continue
        options = PlatformRule(num_devices=devices, transfer_share=share).options(graph)
        problem = PlacementProblem(graph, objective=objective, **options)
        package = CONTENDERS[name][1]
        common = {"setting": case, "graph": graph.name, "ops": graph.num_ops, "method": name}
        common |= {"devices": devices, "latency": options["latency"], "seed": 0}
        common |= {"per_byte": options["per_byte"], "time_limit": flags.seconds}
        common |= {"version": f"{package} {importlib.metadata.version(package)}"}
        common |= {"cores": instances.cores()}
        about = {key: value for key, value in common.items() if key not in ("ops", "graph")}
        shipped = keys.policy_content(None) if name == "auto" else ""
        key = keys.key(race=about, graph=graph, shipped=shipped, machine=keys.machine())
        yield key, common, problem, name


def rows(common: dict, problem: PlacementProblem, name: str, seconds: float) -> list[dict]:
    """The best costs after each of ``curves.SECONDS``, where there are any, and the bound.

    ``auto`` runs for a tenth of the time first, which compiles most of what it needs.
    """
    make_room()
    contender, seed = CONTENDERS[name][0], common["seed"]
    if name == "auto":
        contender(problem, seconds / 10, seed)
    points = contender(problem, seconds, seed)
    metrics = curves.metrics(points, seconds)
    metrics[curves.LAST_METRIC] = float(problem.lower_bound)
    return [common | {"metric": metric, "value": value} for metric, value in metrics.items()]


if __name__ == "__main__":
    main()

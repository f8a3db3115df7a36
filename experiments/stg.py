"""List heuristics and searches on the Standard Task Graph set, whose optima are known.

  python experiments/stg.py --flagfile=experiments/flags/small/stg.flags --data_dir=data/stg

Random task graphs on identical processors without communication, for least makespan (Tobita and
Kasahara 2002). --data_dir holds a file a set, for example stg50.jsonl.gz, with one object a line:
``name``; ``durations``; ``edges``, pairs of tasks; by number of processors ``published``, the
[lower, upper] of STG's page, and ``verified_optimum``, the length of a schedule proven optimal, or
null. Results are rows of a CSV; an interrupted run resumes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from absl import flags

import regal_jax as rj
from regal_jax.errors import OptionError, RegalError
from regal_jax.graphs import files
from regal_jax.reporting import progress, results, statistics, tables
from regal_jax.search.list_scheduling.heuristics import HEURISTICS
from regal_jax.studies import launch

_DATA_DIR = flags.DEFINE_string("data_dir", "data/stg", "Folder of the sets.")
_OUTPUT_DIR = flags.DEFINE_string("output_dir", "results/stg", "Where results go.")
_SETS = flags.DEFINE_list("sets", ["stg50", "stg100", "stg300"], "Files without their suffix.")
_MAX_GRAPHS = flags.DEFINE_integer("max_graphs", 1000, "Most graphs of a set.", lower_bound=1)
_PROCESSORS = flags.DEFINE_list("processors", ["2", "4", "8", "16"], "Numbers of processors.")
_HEURISTICS = flags.DEFINE_list("heuristics", list(HEURISTICS), "List heuristics to run.")
_METHODS = flags.DEFINE_list("methods", [], "Methods of optimize to run, too.")
_METHOD_PROCESSORS = flags.DEFINE_list("method_processors", ["2"], "Processors for the methods.")
_EVALUATIONS = flags.DEFINE_integer("evaluations", 5000, "Budget of a method.", lower_bound=1)
_POLICY = flags.DEFINE_string("policy", None, "Policy file for the method regal.")
_SEEDS = flags.DEFINE_integer("seeds", 1, "Seeds of each method.", lower_bound=1)

_EXTRA_COLUMNS = ("set", "processors")
_KEY = ("set", "graph", "processors", "method", "seed")
_LAST_METRIC = "bound"
"""Written last: a result without it was cut off while it was written, and is made again."""


class Known(NamedTuple):
    """What is known of one problem: a length that no schedule beats, and whether one reaches it."""

    bound: float
    is_optimum: bool


class Instance(NamedTuple):
    """A task graph of a set, and what is known of it by number of processors."""

    set_name: str
    graph: rj.ComputationGraph
    known: dict[int, Known]


class Solver(NamedTuple):
    """A column of results: (graph, processors, seed) -> schedule, and what it is run with."""

    label: str
    processors: Sequence[int]
    seeds: int
    run: Callable[[rj.ComputationGraph, int, int], rj.Schedule]


def main(_) -> None:
    output = Path(_OUTPUT_DIR.value)
    output.mkdir(parents=True, exist_ok=True)
    (output / "config.flags").write_text(flags.FLAGS.flags_into_string())
    instances = [
        instance
        for name in _SETS.value
        for instance in read_set(Path(_DATA_DIR.value), name)[: _MAX_GRAPHS.value]
    ]
    rows = run_all(instances, solvers(), output / "results.csv")
    print(report(instances, rows))


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


def solvers() -> list[Solver]:
    """What the flags ask for. Raises OptionError for an unknown heuristic."""
    processors = [int(p) for p in _PROCESSORS.value]
    for name in _HEURISTICS.value:
        if name not in HEURISTICS:
            raise OptionError(f"heuristic {name!r} is unknown; choose from {', '.join(HEURISTICS)}")
    heuristics = [Solver(name, processors, 1, _heuristic(name)) for name in _HEURISTICS.value]
    budget = _EVALUATIONS.value
    methods = [
        Solver(
            f"{name} {budget}",
            [int(p) for p in _METHOD_PROCESSORS.value],
            _SEEDS.value,
            _method(name, budget),
        )
        for name in _METHODS.value
    ]
    return heuristics + methods


def _heuristic(name: str):
    return lambda graph, processors, seed: HEURISTICS[name](graph, rj.Platform(processors))


def _method(name: str, evaluations: int):
    return lambda graph, processors, seed: rj.optimize(
        graph,
        objective="makespan",
        num_devices=processors,
        method=name,
        evaluations=evaluations,
        seed=seed,
        policy=_POLICY.value,
    )


def run_all(
    instances: Sequence[Instance], to_run: Sequence[Solver], path: Path
) -> list[results.Row]:
    """Every solver on every problem; what the file holds already is not run again."""
    rows = results.read_results(path, missing_ok=True)
    done = results.done_keys(rows, [_LAST_METRIC], _KEY)
    todo = list(_runs(instances, to_run))
    with progress.bar("schedules", len(todo)) as update:
        for count, (instance, solver, processors, seed) in enumerate(todo, 1):
            key = _values(instance, solver, processors, seed)
            if key not in done:
                new = _measure(instance, solver, processors, seed)
                results.append_results(path, new, _EXTRA_COLUMNS)
                rows += new
            update(count, instance.graph.name)
    asked = {_values(*run) for run in todo}
    return [row for row in rows if tuple(row[column] for column in _KEY) in asked]


def _runs(
    instances: Sequence[Instance], to_run: Sequence[Solver]
) -> Iterator[tuple[Instance, Solver, int, int]]:
    for instance in instances:
        for solver in to_run:
            for processors in solver.processors:
                for seed in range(solver.seeds):
                    yield instance, solver, processors, seed


def _values(instance: Instance, solver: Solver, processors: int, seed: int) -> tuple:
    """The values of the columns ``_KEY``."""
    return instance.set_name, instance.graph.name, str(processors), solver.label, seed


def _measure(instance: Instance, solver: Solver, processors: int, seed: int) -> list[results.Row]:
    """The rows of one schedule, which is checked and costed anew."""
    graph = instance.graph
    if processors not in instance.known:
        raise OptionError(f"{graph.name}: nothing is known for {processors} processors")
    known = instance.known[processors]
    makespan = rj.evaluate(graph, solver.run(graph, processors, seed)).makespan
    check(f"{solver.label} on {graph.name}, {processors} processors", makespan, known)
    common = dict(zip(_KEY, _values(instance, solver, processors, seed), strict=True))
    metrics = {"makespan": makespan, _LAST_METRIC: known.bound}
    return [common | {"metric": name, "value": value} for name, value in metrics.items()]


def check(what: str, makespan: float, known: Known) -> None:
    """Raises RegalError for a schedule that is too good to be true."""
    if makespan < known.bound:
        kind = "optimum" if known.is_optimum else "published lower bound"
        raise RegalError(
            f"{what}: makespan {makespan:g} is below the {kind}, {known.bound:g};"
            " the schedule's cost or the data must be wrong"
        )


def report(instances: Sequence[Instance], rows: Sequence[results.Row]) -> str:
    """A table a set: mean gap by method and number of processors."""
    names = dict.fromkeys(instance.set_name for instance in instances)
    return "\n\n".join(_table(name, instances, rows) for name in names)


def _table(set_name: str, instances: Sequence[Instance], rows: Sequence[results.Row]) -> str:
    of_set = [instance for instance in instances if instance.set_name == set_name]
    gaps = gaps_by_column([row for row in rows if row["set"] == set_name])
    processors = sorted({p for _, p in gaps})
    known = [sum(instance.known[p].is_optimum for instance in of_set) for p in processors]
    lines = [{"method": "optimum known"} | dict(zip(map(_header, processors), known, strict=True))]
    for method in dict.fromkeys(method for method, _ in gaps):
        cells = {_header(p): _interval(gaps[method, p]) for p in processors if (method, p) in gaps}
        lines.append({"method": method} | cells)
    title = f"{set_name}, {len(of_set)} graphs: % over the optimum (if unknown, its lower bound)"
    return f"{title}, mean and 95% interval\n{tables.text_table(lines)}"


def gaps_by_column(rows: Sequence[results.Row]) -> dict[tuple[str, int], dict[str, list[float]]]:
    """By method and number of processors, the gaps of each graph in percent, one a seed."""
    values: dict[tuple, dict[str, float]] = defaultdict(dict)
    for row in rows:
        values[tuple(row[column] for column in _KEY)][row["metric"]] = row["value"]
    gaps: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (_, graph, processors, method, _), found in values.items():
        gap = float(statistics.gap_percent(found["makespan"], found[_LAST_METRIC]))
        gaps[method, int(processors)][graph].append(gap)
    return gaps


def _header(processors: int) -> str:
    return f"{processors} processors"


def _interval(gaps: dict[str, list[float]]) -> str:
    interval = statistics.mean_interval(gaps)
    return f"{interval.mean:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


if __name__ == "__main__":
    launch.run(main)

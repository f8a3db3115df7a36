"""List heuristics and searches on task graphs: every solver on every problem, resumable."""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import regal_jax as rj
from regal_jax.errors import OptionError, RegalError
from regal_jax.reporting import progress, results
from regal_jax.search.list_scheduling.heuristics import HEURISTICS
from regal_jax.studies import keys
from regal_jax.studies.flags import check_names, option
from regal_jax.studies.kept import KEY, KeptRows
from regal_jax.studies.settings import Output
from regal_jax.studies.stg.instances import Instance, Known

BOUND = "bound"
"""The metric written last: a result without it was cut off while it was written, and is made
again."""
_EXTRA_COLUMNS = (KEY, "set", "processors", "policy")


@dataclass(frozen=True, kw_only=True)
class Settings(Output):
    """Which sets, and what to run on them."""

    data_dir: str = option("data/stg", "Folder of the sets.")
    sets: tuple[str, ...] = option(("stg50", "stg100", "stg300"), "Files without their suffix.")
    max_graphs: int = option(1000, "Most graphs of a set.", least=1)
    processors: tuple[int, ...] = option((2, 4, 8, 16), "Numbers of processors.")
    heuristics: tuple[str, ...] = option(tuple(HEURISTICS), "List heuristics to run.")
    methods: tuple[str, ...] = option((), "Methods of optimize to run, too.")
    method_processors: tuple[int, ...] = option((2,), "Processors for the methods.")
    evaluations: int = option(5000, "Budget of a method.", least=1)
    policy: str | None = option(None, "Policy file for the method regal_paper.")
    seeds: int = option(1, "Seeds of each method.", least=1)


class Solver(NamedTuple):
    """A column of results: (graph, processors, seed) -> schedule, and what it is run with.

    ``options`` are those of ``optimize`` but for processors and seed; None for a heuristic.
    """

    label: str
    processors: Sequence[int]
    seeds: int
    run: Callable[[rj.ComputationGraph, int, int], rj.Schedule]
    options: rj.Options | None = None


def solvers(settings: Settings) -> list[Solver]:
    """What the settings ask for. Raises OptionError for an unknown heuristic."""
    check_names("heuristics", settings.heuristics, HEURISTICS)
    heuristics = [
        Solver(name, settings.processors, 1, _heuristic(name)) for name in settings.heuristics
    ]
    methods = [
        _method(
            f"{name} {settings.evaluations}",
            settings,
            rj.Options(
                objective="makespan",
                method=name,
                evaluations=settings.evaluations,
                policy=settings.policy,
            ),
        )
        for name in settings.methods
    ]
    return heuristics + methods


def _heuristic(name: str):
    return lambda graph, processors, seed: HEURISTICS[name](graph, rj.Platform(processors))


def _method(label: str, settings: Settings, options: rj.Options) -> Solver:
    def run(graph: rj.ComputationGraph, processors: int, seed: int) -> rj.Schedule:
        return rj.optimize(graph, options, num_devices=processors, seed=seed)

    return Solver(label, settings.method_processors, settings.seeds, run, options)


def run_all(
    instances: Sequence[Instance], to_run: Sequence[Solver], path: Path
) -> list[results.Row]:
    """Every solver on every problem; what the file holds already, of the same key, is not run
    again."""
    kept, rows = KeptRows(path, BOUND, _EXTRA_COLUMNS), []
    todo = list(_runs(instances, to_run))
    for instance, solver, processors, seed in progress.each("schedules", todo):
        of_solver = {"label": solver.label, "options": solver.options}
        key = keys.key(instance=instance, processors=processors, seed=seed, **of_solver)
        make = functools.partial(_measure, instance, solver, processors, seed)
        rows += kept.rows(key, make)
    return rows


def _runs(
    instances: Sequence[Instance], to_run: Sequence[Solver]
) -> Iterator[tuple[Instance, Solver, int, int]]:
    for instance in instances:
        for solver in to_run:
            for processors in solver.processors:
                for seed in range(solver.seeds):
                    yield instance, solver, processors, seed


def _measure(instance: Instance, solver: Solver, processors: int, seed: int) -> list[results.Row]:
    """The rows of one schedule, which is checked and costed anew."""
    graph = instance.graph
    if processors not in instance.known:
        raise OptionError(f"{graph.name}: nothing is known for {processors} processors")
    known = instance.known[processors]
    makespan = rj.evaluate(graph, solver.run(graph, processors, seed)).makespan
    check(f"{solver.label} on {graph.name}, {processors} processors", makespan, known)
    policy = solver.options and solver.options.policy
    common = {"set": instance.set_name, "graph": graph.name, "processors": processors}
    common |= {"method": solver.label, "seed": seed, "policy": policy or ""}
    metrics = {"makespan": makespan, BOUND: known.bound}
    return [common | {"metric": name, "value": value} for name, value in metrics.items()]


def check(what: str, makespan: float, known: Known) -> None:
    """Raises RegalError for a schedule that is too good to be true."""
    if makespan < known.bound:
        kind = "optimum" if known.is_optimum else "published lower bound"
        raise RegalError(
            f"{what}: makespan {makespan:g} is below the {kind}, {known.bound:g};"
            " the schedule's cost or the data must be wrong"
        )

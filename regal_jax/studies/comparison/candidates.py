"""Comparing methods that give candidates to try on targets: long-form rows, appended as they come.

gflownet_robust_scheduling, section 5: of a method's samples, the best by the proxy are candidates,
which are tried on the targets.
"""

import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from regal_jax import registry
from regal_jax.environments.execution import targets
from regal_jax.environments.execution.targets import TargetModel
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.schedule import Schedule
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.methods import trials
from regal_jax.options import Budget, Options
from regal_jax.reporting import diversity, progress
from regal_jax.search.placements import candidates
from regal_jax.search.placements.candidates import Candidates
from regal_jax.studies import executors, keys
from regal_jax.studies.kept import KEY, KeptRows

FIXED = ("critical_path",)
"""Samplers without randomness, which are run once."""

COLUMNS = (
    *(KEY, "setting", "ops", "budget", "devices", "candidates", "noise_draws"),
    *("temperature", "policy"),
)
SPREAD = ("mean", "q95")
"""What follows a target's name in metrics of all candidates."""

LAST_METRIC = "seconds"
"""Written last: a search without it was cut off while it was written, and is run again."""

Policies = Mapping[tuple[str, int], Path | None]
"""Files by method and seed; the shipped policy for None, or where there is none."""

Targets = Mapping[str, TargetModel]
"""By name."""

Row = dict[str, Any]

Measure = Callable[[ComputationGraph, Candidates, int], dict[str, float]]
"""(graph, samples, seed) -> what is to be told of them, by metric: a function of a module, or a
``functools.partial`` of one, so that keys know what it depends on."""


class Search(NamedTuple):
    """A method to run: a line of a table.

    Attributes:
      label: its name in tables.
      method: a sampler.
      samples, evaluations: of samplers that don't search, and of those that do.
      temperature: how much samples differ, of samplers that have one; None is their own.
      trials: as many as candidates, one after another (``methods.trials``), in place of the best by
        the proxy.
    """

    label: str
    method: str
    samples: int = 1000
    evaluations: int = 5000
    temperature: float | None = None
    trials: bool = False

    @property
    def budget(self) -> int:
        """Samples, or evaluations of a sampler that searches."""
        searches = registry.find("sampler", self.method).about["searches"]
        return self.evaluations if searches else self.samples


class Trial(NamedTuple):
    """What searches have in common.

    Attributes:
      num_devices: identical devices; the proxy has no transfer times.
      candidates: how many of a search's schedules are tried on the targets, at most.
      targets: to try them on.
      policies: of the methods that need one.
      noise_draws: of each target whose durations are noisy, with its seed and those that follow.
    """

    num_devices: int = 4
    candidates: int = 100
    targets: Targets = MappingProxyType({})
    policies: Policies = MappingProxyType({})
    noise_draws: int = 1


def compare(
    graphs: Mapping[str, Sequence[ComputationGraph]],
    searches: Sequence[Search],
    trial: Trial,
    *,
    seeds: int,
    path: str | os.PathLike,
    measure: Measure | None = None,
    executor: str = executors.HERE,
) -> list[Row]:
    """Rows of every search on every graph with every seed.

    Metrics are those of ``measure``, and "seconds": of sampling, reading a policy and computing its
    features included. Compilation isn't, since the same search comes first, on a copy of the graph;
    and neither is choosing candidates and trying them.

    Args:
      graphs: by setting.
      searches, trial: what to run.
      seeds: searches that are random are done with seeds 0, 1, ..., seeds - 1.
      path: results file; what it holds already, of the same key, is not run again.
      measure: of a search's samples; by default ``metrics``. Another may depend on the seed, so all
        searches are done with every seed.
      executor: where searches run (``executors``), all seeds of a search on a graph at one place.
    """
    fixed = FIXED if measure is None else ()
    kept, wanted = KeptRows(path, LAST_METRIC, COLUMNS), list[str]()
    trial = trial._replace(targets=dict(trial.targets), policies=dict(trial.policies))
    common, tasks = list[tuple[Row, dict[int, str]]](), list[tuple]()
    todo = [(s, graph, search) for s in graphs for graph in graphs[s] for search in searches]
    for setting, graph, search in todo:
        every = range(1 if search.method in fixed else seeds)
        of_seed = {s: _key(setting, graph, search, trial, s, measure) for s in every}
        wanted += of_seed.values()
        if missing := [seed for seed, key in of_seed.items() if key not in kept]:
            common.append((_columns(setting, graph, search, trial), of_seed))
            tasks.append((graph, search, trial, missing, measure))
    with progress.bar("searches", len(tasks)) as update:
        for count, (number, found) in enumerate(executors.completed(executor, _measured, tasks), 1):
            columns, of_seed = common[number]
            for seed, rows in found.items():
                kept.add(of_seed[seed], [columns | row for row in rows])
            update(count)
    kept.arrange(wanted)
    return [row for key in wanted for row in kept[key]]


def _key(
    setting: str,
    graph: ComputationGraph,
    search: Search,
    trial: Trial,
    seed: int,
    measure: Measure | None,
) -> str:
    policy = keys.policy_content(trial.policies.get((search.method, seed)))
    own = {"trial": trial._replace(policies={}), "policy": policy, "seed": seed}
    return keys.key(setting=setting, graph=graph, search=search, measure=measure, **own)


def _columns(setting: str, graph: ComputationGraph, search: Search, trial: Trial) -> Row:
    """What all seeds of a search have in common, but for the policy."""
    return {
        "setting": setting,
        "graph": graph.name,
        "ops": graph.num_ops,
        "method": search.label,
        "budget": search.budget,
        "devices": trial.num_devices,
        "candidates": trial.candidates,
        "noise_draws": trial.noise_draws,
        "temperature": "" if search.temperature is None else search.temperature,
    }


def metrics(graph: ComputationGraph, sampled: Candidates, trial: Trial) -> dict[str, float]:
    """How good and how different the best samples are (section 5).

    Speedups are the sum of the graph's durations, as profiled, over a makespan: "proxy_1" of the
    best schedule, "proxy_100" the mean of all candidates, and those of ``on_targets``. Then the
    fields of ``diversity.Diversity``, and "candidates",
    how many there are: fewer than asked for where samples are equal but for the names of devices.
    """
    problem, work = proxy(graph, trial.num_devices), float(graph.duration.sum())
    best = candidates.best_schedules(problem, sampled, trial.candidates)
    values = {
        "proxy_1": work / best[0].makespan,
        "proxy_100": float(np.mean([work / schedule.makespan for schedule in best])),
    }
    values |= on_targets(graph, best, trial)
    apart = diversity.diversity(graph, best)
    return values | apart._asdict() | {"candidates": len(best)}


def on_targets(
    graph: ComputationGraph, schedules: Sequence[Schedule], trial: Trial
) -> dict[str, float]:
    """The speedups of some schedules on each target, means over the draws of its noise: under its
    name of the best, and the mean and the 95 % quantile of all (``SPREAD``)."""
    work, values = float(graph.duration.sum()), {}
    for name, models in _drawn(trial).items():
        speedup = work / np.array([_times(graph, schedules, model) for model in models])
        mean, high = (f"{name} {spread}" for spread in SPREAD)
        values[name] = float(speedup.max(axis=1).mean())
        values |= {mean: float(speedup.mean())}
        values |= {high: float(np.quantile(speedup, 0.95, axis=1).mean())}
    return values


def _times(
    graph: ComputationGraph, schedules: Sequence[Schedule], model: TargetModel
) -> np.ndarray:
    """float64[N], us: what valid schedules take on a target; all at once where that can be."""
    if model.links != "many" or model.straggler:
        return np.array([targets.simulated(graph, model)(one) for one in schedules])
    latency, per_byte = targets.transfer_times(graph, model)
    real = graph.replace(duration=graph.duration * targets.noise_factors(model, graph.num_ops))
    devices = schedules[0].num_devices
    there = PlacementProblem(real, devices, "makespan", latency=latency, per_byte=per_byte)
    return candidates.makespans(there, candidates.from_schedules(schedules))


def in_trials(
    graph: ComputationGraph, sampled: Candidates, trial: Trial, seed: int
) -> dict[str, float]:
    """The speedup on each target of the best of as many trials as candidates (``methods.trials``),
    means over the draws of its noise."""
    problem, work = proxy(graph, trial.num_devices), float(graph.duration.sum())
    ranked = candidates.best_schedules(problem, sampled, trial.candidates)

    def best(model: TargetModel) -> float:
        time_of, count = targets.simulated(graph, model), trial.candidates
        tried = trials.run(problem, ranked, time_of, count, seed)
        return work / min(one.time for one in tried)

    return {
        name: float(np.mean([best(model) for model in models]))
        for name, models in _drawn(trial).items()
    }


def _drawn(trial: Trial) -> dict[str, list[TargetModel]]:
    """Each target once for each draw of its noise."""
    return {
        name: [
            dataclasses.replace(model, seed=model.seed + draw)
            for draw in range(trial.noise_draws if model.noise else 1)
        ]
        for name, model in trial.targets.items()
    }


def speedups(graph: ComputationGraph, sampled: Candidates, num_devices: int) -> np.ndarray:
    """float64[N], of samples on the proxy."""
    problem = proxy(graph, num_devices)
    return graph.duration.sum() / candidates.makespans(problem, sampled)


def mean_seconds(rows: Iterable[Row], setting: str) -> dict[str, float]:
    """Seconds of a search by its label, over all graphs and seeds."""
    seconds: dict[str, list[float]] = {}
    for row in rows:
        if row["setting"] == setting and row["metric"] == LAST_METRIC:
            seconds.setdefault(row["method"], []).append(row["value"])
    return {label: float(np.mean(some)) for label, some in seconds.items()}


def proxy(graph: ComputationGraph, num_devices: int) -> PlacementProblem:
    """The makespan on identical devices without transfer times."""
    return PlacementProblem(graph, num_devices, "makespan")


def _measured(
    graph: ComputationGraph,
    search: Search,
    trial: Trial,
    seeds: Sequence[int],
    measure: Measure | None,
) -> dict[int, list[Row]]:
    """What is measured with each seed, ``LAST_METRIC`` last."""
    _sampled(graph, search, trial, seeds[0])
    rows = {}
    for seed in seeds:
        sampled, seconds = _sampled(graph, search, trial, seed)
        if search.trials:
            values = in_trials(graph, sampled, trial, seed)
        else:
            values = measure(graph, sampled, seed) if measure else metrics(graph, sampled, trial)
        policy = trial.policies.get((search.method, seed))
        own = {"seed": seed, "policy": "" if policy is None else policy.name}
        rows[seed] = [
            own | {"metric": metric, "value": value}
            for metric, value in (values | {LAST_METRIC: seconds}).items()
        ]
    return rows


def _sampled(
    graph: ComputationGraph, search: Search, trial: Trial, seed: int
) -> tuple[Candidates, float]:
    """A search's samples, and the seconds that it took."""
    graph = graph.replace(name=graph.name)  # a copy, of which nothing has been computed yet
    sampler = registry.find("sampler", search.method)
    options = Options(
        candidates=trial.candidates,
        policy=trial.policies.get((search.method, seed)),
        temperature=search.temperature,
    )
    problem = proxy(graph, trial.num_devices)
    begin = time.perf_counter()
    sampled = sampler.make(problem, Budget(search.budget, seed, options=options))
    return sampled, time.perf_counter() - begin

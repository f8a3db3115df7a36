"""Tuned BRKGA (REGAL section 4.2): every setting of a grid on training graphs, resumable."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax

from regal_jax.datasets import corpora
from regal_jax.datasets.zoo.splits import name_hash
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.schedule import Objective
from regal_jax.graphs import files
from regal_jax.graphs.batching import padded_shape
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.methods.evolution import beta_mutants, evolve
from regal_jax.options import Budget
from regal_jax.reporting import progress, statistics, tables
from regal_jax.search.evolution import tuning_grid
from regal_jax.search.evolution.tuning_grid import DEFAULT, Setting
from regal_jax.studies import keys
from regal_jax.studies.flags import option
from regal_jax.studies.kept import KEY, KeptRows
from regal_jax.studies.regal.experiment import Dataset
from regal_jax.studies.settings import Output

METRIC = "cost"
EXTRA_COLUMNS = (KEY, "objective", "evaluations", "devices")


class Task(NamedTuple):
    """What settings are measured by: searches with seeds 0 to ``seeds`` - 1 of one budget."""

    objective: Objective
    evaluations: int
    seeds: int
    num_devices: int = 2


@dataclass(frozen=True, kw_only=True)
class Settings(Output, Dataset):
    """Which settings of the grid are measured, on which graphs, by what."""

    objective: Objective = option("peak_memory", "Cost.")
    num_devices: int = option(2, "Devices.")
    copies: int = option(1, "Training graphs with other sizes, of each graph.")
    train_graphs: int = option(10_000, "Most real graphs, before copying.")
    least_ops: int = option(2, "Smallest training graph, in ops.")
    train_ops: int = option(300, "Largest training graph, in ops.")
    settings: int = option(648, "The first so many of the grid.", least=1)
    rungs: tuple[int, ...] = option((8, 24, 64), "Graphs of each rung of halving.", least=1)
    test_evaluations: int = option(5000, "Budget of each search.")
    seeds: int = option(1, "Seeds of each search.")

    @property
    def task(self) -> Task:
        return Task(self.objective, self.test_evaluations, self.seeds, self.num_devices)


Gains = dict[Setting, statistics.MeanInterval]
"""Improvements over the default setting in percent."""


def training_graphs(settings: Settings) -> list[ComputationGraph]:
    """Graphs of the training split within the sizes asked for, by a hash of their names, so that
    the first n are a random sample of n."""
    graphs = corpora.training_graphs(
        settings.dataset, settings.copies, settings.train_ops, max_graphs=settings.train_graphs
    )
    fitting = (graph for graph in graphs if graph.num_ops >= settings.least_ops)
    return sorted(fitting, key=lambda graph: name_hash(graph.name))


def tune(
    graphs: Sequence[ComputationGraph],
    settings: Sequence[Setting],
    task: Task,
    *,
    rungs: Sequence[int],
    path: Path,
) -> Gains:
    """Improvements of the settings of the last rung, the best first.

    All settings are measured on the first ``rungs[0]`` graphs, the best third of them on the first
    ``rungs[1]``, and so on: successive halving, which is not in the paper. One rung is its plain
    grid search. All settings have common seeds, and are compared with ``DEFAULT``.

    Args:
      graphs: training graphs, in random order.
      settings: those to choose from, ``DEFAULT`` among them.
      task: how to measure.
      rungs: graphs of each rung, increasing.
      path: results file; what it holds already, of the same key, is not run again.

    Raises:
      OptionError: for rungs that don't fit.
    """
    tuning_grid.check_rungs(rungs, len(graphs))
    problems = list(_problems(graphs[: rungs[-1]], task))
    kept = KeptRows(path, METRIC, EXTRA_COLUMNS)
    gains: Gains = {}
    for count in rungs:
        _measure(problems[:count], settings, task, kept)
        gains = _gains(kept, settings, task, problems[:count])
        settings = tuning_grid.survivors({setting: gain.mean for setting, gain in gains.items()})
    return dict(sorted(gains.items(), key=lambda item: -item[1].mean))


def document(gains: Gains, num_settings: int, task: Task, rungs: Sequence[int]) -> dict[str, Any]:
    """What ``methods.evolution.tuned_parameters`` reads, and where it comes from."""
    best, gain = next(iter(gains.items()))
    return {
        "best": best.config._asdict() | {"alpha": best.alpha, "beta": best.beta},
        "improvement": round(gain.mean, 3),
        "interval": None if math.isnan(gain.low) else [round(gain.low, 3), round(gain.high, 3)],
        "graphs": rungs[-1],
        "rungs": list(rungs),
        "settings": num_settings,
        **task._asdict(),
    }


def save(gains: Gains, num_settings: int, task: Task, rungs: Sequence[int], folder: Path) -> Path:
    """Writes ``document`` to ``tuned_brkga_OBJECTIVE.json``; the file."""
    path = folder / f"tuned_brkga_{task.objective}.json"
    text = json.dumps(document(gains, num_settings, task, rungs), indent=2) + "\n"
    files.write_atomically(path, lambda file: file.write(text.encode()))
    return path


def report(gains: Gains, most: int = 10) -> str:
    """The best settings as a table, and the default where it is not among them."""
    shown = list(gains)[:most]
    rows = [_row(setting, gains[setting]) for setting in dict.fromkeys([*shown, DEFAULT])]
    return tables.text_table(rows)


def _row(setting: Setting, gain: statistics.MeanInterval) -> dict[str, str]:
    names = ("population", "elites", "children", "populations", "elite_bias")
    row = {name: str(getattr(setting.config, name)) for name in names}
    row["improvement %"] = gain.text()
    return row


def _problems(graphs: Sequence[ComputationGraph], task: Task) -> Iterator[PlacementProblem]:
    """Problems padded in classes of sizes up to 4, 16, 64, 256, ... ops, so that few programs are
    compiled for each setting: unlike costs, random genes of padding are cheap."""
    classes: dict[int, list[ComputationGraph]] = {}
    size_class = lambda graph: (max(graph.num_ops - 1, 0).bit_length() + 1) // 2  # noqa: E731
    for graph in graphs:
        classes.setdefault(size_class(graph), []).append(graph)
    shapes = {size: padded_shape(members) for size, members in classes.items()}
    for graph in graphs:
        shape = shapes[size_class(graph)]
        yield PlacementProblem(graph, task.num_devices, task.objective, shape=shape)


def _measure(problems, settings, task: Task, kept: KeptRows) -> None:
    """Adds what is missing to the file."""
    todo = [
        (setting, problem, seed)
        for setting in settings
        for problem in problems
        for seed in range(task.seeds)
    ]
    for setting, problem, seed in progress.each("searches", todo):
        key = _key(problem, setting, seed, task)
        if key not in kept:
            row = {"graph": problem.graph.name, "method": setting.label, "seed": seed}
            row |= {"objective": task.objective, "evaluations": task.evaluations}
            row |= {"devices": task.num_devices, "metric": METRIC}
            kept.add(key, [row | {"value": _cost(problem, setting, seed, task)}])


def _cost(problem: PlacementProblem, setting: Setting, seed: int, task: Task) -> float:
    mutants = beta_mutants(setting.alpha, setting.beta, problem.spec.num_genes)
    budget, key = Budget(task.evaluations), jax.random.key(seed)
    return evolve(problem, budget, key, config=setting.config, mutants=mutants).cost


def _key(problem: PlacementProblem, setting: Setting, seed: int, task: Task) -> str:
    """The key of a search; random genes depend on the padded shape of the problem, too."""
    return keys.key(
        graph=problem.graph,
        spec=problem.spec,
        setting=setting,
        seed=seed,
        evaluations=task.evaluations,
    )


def _gains(
    kept: KeptRows,
    settings: Sequence[Setting],
    task: Task,
    problems: Sequence[PlacementProblem],
) -> Gains:
    """Improvements on these problems' graphs, means over seeds, then graphs."""

    def costs(setting: Setting, problem: PlacementProblem) -> list[float]:
        of_seed = [_key(problem, setting, seed, task) for seed in range(task.seeds)]
        return [kept[key][0]["value"] for key in of_seed]

    reference = {problem.graph.name: costs(DEFAULT, problem) for problem in problems}
    return {
        setting: statistics.mean_interval(
            {
                problem.graph.name: statistics.improvement_percent(
                    costs(setting, problem), reference[problem.graph.name]
                )
                for problem in problems
            }
        )
        for setting in settings
    }

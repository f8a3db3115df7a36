"""The sweep behind REGAL's figure 8: a training run for each number of rounds, weight and seed."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regal_jax.environments.schedule import Objective
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.policies.regal import RegalConfig
from regal_jax.reporting import results
from regal_jax.training import checkpoints
from regal_jax.training.pipeline import train_regal
from regal_jax.training.regal import TrainingConfig

METRIC = "validation_improvement"
EXTRA_COLUMNS = ("rounds", "baseline_weight")
_KEY = (*EXTRA_COLUMNS, "seed")

Graphs = Sequence[ComputationGraph]


class TrainingRun(NamedTuple):
    """A run of the sweep: T of message passing, lambda of the baseline's loss, and a seed."""

    rounds: int
    baseline_weight: float
    seed: int

    @property
    def key(self) -> tuple[str, str, int]:
        """The columns ``_KEY``, as they are read back."""
        return str(self.rounds), f"{self.baseline_weight:g}", self.seed

    @property
    def folder(self) -> str:
        return "rounds_{}_weight_{}_seed_{}".format(*self.key)


def sweep(rounds: Sequence[int], weights: Sequence[float], seeds: int) -> list[TrainingRun]:
    """All combinations, seed by seed, so that an unfinished sweep has something of everything."""
    return [
        TrainingRun(count, weight, seed)
        for seed, count, weight in itertools.product(range(seeds), rounds, weights)
    ]


def train_all(
    runs: Sequence[TrainingRun],
    graphs: Callable[[], tuple[Graphs, Graphs]],
    *,
    objective: Objective,
    regal: RegalConfig,
    config: TrainingConfig,
    directory: Path,
    validate_every: int,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[results.Row]:
    """Trains each run in a folder of its own, and returns all rows of ``results.csv``.

    Args:
      runs: what differs between the runs. What the file holds already is not run again.
      graphs: makes (training graphs, validation graphs), if there is anything to train.
      objective, regal, config, validate_every: of all runs, see ``train_regal``.
      directory: where results.csv and the folders go.
      on_progress: called with (runs done, runs in all).

    Raises:
      OptionError: for several baseline weights where there is no learned baseline.
    """
    if config.samples > 1 and len({run.baseline_weight for run in runs}) > 1:
        raise OptionError("baseline weights have no effect with --samples above 1; name one")
    path = directory / "results.csv"
    rows = results.read_results(path, missing_ok=True)
    done = results.done_keys(rows, [METRIC], _KEY)
    todo = [run for run in runs if run.key not in done]
    training, validation = graphs() if todo else ([], [])
    for count, run in enumerate(todo, 1 + len(runs) - len(todo)):
        policy = train_regal(
            training,
            validation,
            objective=objective,
            regal=dataclasses.replace(regal, rounds=run.rounds),
            config=dataclasses.replace(config, baseline_weight=run.baseline_weight, seed=run.seed),
            directory=directory / run.folder,
            validate_every=validate_every,
        )
        rows.append(_row(run, checkpoints.load_policy(policy)[2]))
        results.append_results(path, rows[-1:], EXTRA_COLUMNS)
        on_progress(count, len(runs))
    return rows


def values_by_rounds(
    rows: Sequence[Mapping[str, Any]], runs: Sequence[TrainingRun]
) -> dict[str, list[float]]:
    """The improvements of these runs in percent, by number of rounds in increasing order."""
    value = {tuple(row[column] for column in _KEY): float(row["value"]) for row in rows}
    return {
        str(rounds): [value[run.key] for run in runs if run.rounds == rounds]
        for rounds in sorted({run.rounds for run in runs})
    }


def _row(run: TrainingRun, about: Mapping[str, Any]) -> results.Row:
    row = {"graph": "validation", "method": "regal", "metric": METRIC, "value": about[METRIC]}
    return row | dict(zip(_KEY, run.key, strict=True))

"""REGAL's figure 8: validation improvement by rounds of message passing, seed by seed."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regal_jax.errors import OptionError
from regal_jax.studies.flags import option
from regal_jax.studies.regal import ablation_tables, training_sweep
from regal_jax.studies.regal.experiment import Training
from regal_jax.studies.regal.training_sweep import TrainingRun
from regal_jax.studies.settings import Output


@dataclass(frozen=True, kw_only=True)
class Settings(Output, Training):
    """A sweep of trainings."""

    sweep_rounds: tuple[int, ...] = option((0, 2, 4, 8, 16, 32), "T.", least=1)
    sweep_baseline_weights: tuple[float, ...] = option((1e-3, 1e-4), "lambda.", least=1)
    sweep_seeds: int = option(20, "Seeds 0, 1, ... of training.", least=1)


def runs(settings: Settings) -> list[TrainingRun]:
    """A training for each number of rounds T, weight lambda of the baseline's loss, and seed.

    Seed by seed, so that an unfinished sweep has something of everything. Raises OptionError for
    several weights where there is no learned baseline.
    """
    rounds, weights = settings.sweep_rounds, settings.sweep_baseline_weights
    if settings.training.samples > 1 and len(weights) > 1:
        raise OptionError("baseline weights have no effect with --samples above 1; name one")
    return [
        TrainingRun(
            f"rounds_{count}_weight_{weight:g}_seed_{seed}",
            dataclasses.replace(settings.regal, rounds=count),
            dataclasses.replace(settings.training, baseline_weight=weight, seed=seed),
        )
        for seed, count, weight in itertools.product(range(settings.sweep_seeds), rounds, weights)
    ]


def train(settings: Settings, runs: Sequence[TrainingRun], folder: Path) -> dict[str, float]:
    """The best validation improvement in percent of each run, by name."""
    return training_sweep.train_all(
        runs,
        lambda: training_sweep.load_corpus(settings),
        objective="peak_memory",
        directory=folder,
        validate_every=settings.validate_every,
    )


def report(improvements: Mapping[str, float], runs: Sequence[TrainingRun]) -> None:
    """Prints the improvements by rounds."""
    by_rounds = training_sweep.values_by_rounds(improvements, runs)
    print("best validation improvement over brkga of the training budget, percent")
    print(ablation_tables.spread_table(by_rounds, "T"))

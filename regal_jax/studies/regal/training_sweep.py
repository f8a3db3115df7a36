"""Training several policies on the same graphs, each in a folder of its own, resumable."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from regal_jax.environments.schedule import Objective
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.reporting import progress
from regal_jax.reporting.results import Row
from regal_jax.studies import keys
from regal_jax.studies.corpus import Corpus
from regal_jax.studies.kept import KEY, KeptRows
from regal_jax.studies.regal import experiment
from regal_jax.studies.regal.experiment import Training
from regal_jax.training import checkpoints
from regal_jax.training.regal import TrainingConfig, train_regal

METRIC = "validation_improvement"
EXTRA_COLUMNS = (KEY, "steps")


class TrainingRun(NamedTuple):
    """A policy to train: the name of its folder, the model, and how it is trained."""

    name: str
    regal: RegalConfig
    config: TrainingConfig


def load_corpus(settings: Training) -> Corpus[list[ComputationGraph]]:
    """Graphs of a data set (see ``corpora``): none has more ops than ``train_ops``, synthetic ones
    included, or twice as many for validation in microbatches."""
    name, training, validation = experiment.corpus(settings)
    most = settings.train_ops
    return Corpus(
        name,
        [graph for graph in training if graph.num_ops <= most],
        [graph for graph in validation if graph.num_ops <= 2 * most],
    )


def train_all(
    runs: Sequence[TrainingRun],
    corpus: Callable[[], Corpus],
    *,
    objective: Objective,
    directory: Path,
    validate_every: int,
) -> dict[str, float]:
    """The best validation improvement in percent of each run, by name.

    The policies are ``directory / name / "best.policy"``. ``directory / "training.csv"`` has a row
    for each run that is done; these, with the same graphs and options, are not run again.

    Args:
      runs: of different names.
      corpus: loads the graphs.
      objective, validate_every: of all runs, see ``train_regal``.
      directory: where the folders go.
    """
    kept = KeptRows(directory / "training.csv", METRIC, EXTRA_COLUMNS)
    graphs, found = corpus(), {}
    for run in progress.each("runs", runs):
        key = keys.key(graphs=graphs, run=run, objective=objective, validate_every=validate_every)
        if key not in kept:
            policy = train_regal(
                graphs.training,
                graphs.validation,
                objective=objective,
                regal=run.regal,
                config=run.config,
                directory=directory / run.name,
                validate_every=validate_every,
            )
            kept.add(key, [_row(run, policy)])
        found[run.name] = float(kept[key][0]["value"])
    return found


def _row(run: TrainingRun, policy: Path) -> Row:
    improvement = checkpoints.load_policy(policy, RegalConfig)[2][METRIC]
    row = {"graph": "validation", "metric": METRIC, "value": improvement}
    return row | {"method": run.name, "seed": run.config.seed, "steps": run.config.steps}


def values_by_rounds(
    improvements: Mapping[str, float], runs: Sequence[TrainingRun]
) -> dict[str, list[float]]:
    """The improvements of runs by number of rounds, in increasing order."""
    return {
        str(rounds): [improvements[run.name] for run in runs if run.regal.rounds == rounds]
        for rounds in sorted({run.regal.rounds for run in runs})
    }

"""REGAL's moves against their controls: the same search with the same moves at every op, BRKGA from
the same schedules, and BRKGA."""

from dataclasses import dataclass
from pathlib import Path

from regal_jax.datasets import corpora
from regal_jax.environments.schedule import Objective
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.policies.regal.moves import MovesConfig
from regal_jax.reporting import progress
from regal_jax.studies.flags import group, option
from regal_jax.studies.regal import experiment, tables
from regal_jax.studies.regal.experiment import Graphs, Searches
from regal_jax.studies.settings import GivenPolicy, Output, policy_file
from regal_jax.training import regal_moves
from regal_jax.training.regal_moves import MovesTraining, States

METHODS = ("brkga", "warm_brkga", "elite_mutation", "regal_moves")


@dataclass(frozen=True, kw_only=True)
class Settings(Output, GivenPolicy, Graphs, Searches):
    """A policy, trained or given, against its controls on unseen graphs."""

    objective: Objective = option("peak_memory", "What to minimise.")
    num_devices: int = option(2, "Devices.")
    methods: tuple[str, ...] = option(METHODS, "What to run.", least=1)
    copies: int = option(1, "Training graphs with other sizes, of each graph.")
    train_graphs: int = option(200, "Most real training graphs, before copying.")
    train_ops: int = option(400, "Largest training graph, in ops.")
    validation_graphs: int = option(60, "Most validation graphs.")
    validation_ops: int = option(200, "Largest validation graph, in ops.")
    moves: MovesConfig = group(MovesConfig())
    training: MovesTraining = group(MovesTraining())


def table(settings: Settings, folder: Path) -> str:
    """Trains a policy if none is given, and compares: table 1 of REGAL."""
    if "brkga" not in settings.methods:
        raise OptionError("methods: improvements are over brkga; name it, too")
    policies: dict[str, str | Path | None] = {}
    if "regal_moves" in settings.methods:
        policies["regal_moves"] = policy(settings, folder)
    runs = tables.regal_runs(settings.methods, settings.test_evaluations)
    rows = experiment.compare(
        experiment.test_graphs(settings),
        runs,
        folder,
        settings,
        num_devices=settings.num_devices,
        objective=settings.objective,
        policies=policies,
    )
    return tables.regal_report(rows, runs, folder, settings.objective)


def policy(settings: Settings, folder: Path) -> Path | None:
    """The policy file to test: --policy, the shipped one (None), or one trained in ``folder``."""
    if settings.policy is not None:
        return policy_file(settings.policy)
    training = corpora.training_graphs(
        settings.dataset, settings.copies, settings.train_ops, max_graphs=settings.train_graphs
    )
    validation = corpora.validation_graphs(
        settings.dataset, settings.validation_ops, max_graphs=settings.validation_graphs
    )
    states = _states(training, "training schedules", settings)
    held_out = _states(validation, "validation schedules", settings)
    if not states or not held_out:
        raise OptionError("every training or validation graph is at its lower bound already")
    with progress.bar("training", settings.training.steps) as update:
        return regal_moves.train(
            states,
            held_out,
            policy=settings.moves,
            config=settings.training,
            directory=folder / "training",
            about={"objective": settings.objective, "num_devices": settings.num_devices},
            on_step=lambda step, found: update(step, f"best of {found['best_of']:.4f}"),
        )


def _states(graphs: list[ComputationGraph], label: str, settings: Settings) -> list[States]:
    done = iter(range(1, len(graphs) + 1))
    with progress.bar(label, len(graphs)) as update:
        return regal_moves.prepare_states(
            graphs,
            num_devices=settings.num_devices,
            objective=settings.objective,
            config=settings.training,
            policy=settings.moves,
            on_progress=lambda: update(next(done)),
        )

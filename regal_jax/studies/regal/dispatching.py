"""REGAL's dispatcher against its control, the same search without a network, and other searches."""

from dataclasses import dataclass
from pathlib import Path

from regal_jax.environments.schedule import Objective
from regal_jax.policies.regal.dispatching import DispatchConfig
from regal_jax.reporting import progress
from regal_jax.reporting import tables as text_tables
from regal_jax.studies.comparison.paired import paired_table
from regal_jax.studies.comparison.searches import Run
from regal_jax.studies.flags import group, option
from regal_jax.studies.regal import experiment, tables
from regal_jax.studies.regal.experiment import Graphs, Searches
from regal_jax.studies.settings import GivenPolicy, Output, policy_file
from regal_jax.training import regal_dispatch
from regal_jax.training.regal_dispatch import DispatchTraining, PoolConfig

METHODS = ("brkga", "warm_brkga", "elite_mutation", "dispatch", "regal")
SYSTEMS = ("regal", "dispatch")
"""Methods that read the policy: as its network chooses, and its control."""
FEW = (1, 20, 200)
"""Smaller budgets that these, and ``auto``, are compared at, too."""


@dataclass(frozen=True, kw_only=True)
class Settings(Output, GivenPolicy, Graphs, Searches):
    """A policy, trained or shipped, against its control and against searches."""

    objective: Objective = option("peak_memory", "What to minimise.")
    num_devices: int = option(2, "Devices.")
    methods: tuple[str, ...] = option(METHODS, "What to run.", least=1)
    copies: int = option(2, "Training graphs with other sizes, of each graph.")
    train_graphs: int = option(10_000, "Most real training graphs, before splitting.")
    train_ops: int = option(800, "Largest training graph, in ops.")
    validation_graphs: int = option(240, "Most validation graphs.")
    validation_ops: int = option(600, "Largest validation graph, in ops.")
    dispatch: DispatchConfig = group(DispatchConfig())
    pool: PoolConfig = group(PoolConfig())
    training: DispatchTraining = group(DispatchTraining())


def table(settings: Settings, folder: Path) -> str:
    """Trains the policy unless one is given, and compares: table 1 of REGAL, and the network
    against its control with the full budget and with few evaluations."""
    systems = [name for name in SYSTEMS if name in settings.methods]
    found = policy(settings, folder) if systems else None
    runs = tables.regal_runs(settings.methods, settings.test_evaluations)
    few = [limit for limit in FEW if limit < settings.test_evaluations]
    early = [name for name in (*systems, "auto") if name in settings.methods]
    runs += [Run(tables.label(name, limit), name, limit) for name in early for limit in few]
    graphs = experiment.test_graphs(settings)
    if settings.transfer_share:
        platform = f"{settings.num_devices} devices, transfers {settings.transfer_share:g}"
        graphs = {f"{setting}, {platform}": some for setting, some in graphs.items()}
    rows = experiment.compare(
        graphs,
        runs,
        folder,
        settings,
        num_devices=settings.num_devices,
        objective=settings.objective,
        policies=dict.fromkeys(systems, found),
    )
    parts = [text_tables.text_table(paired_table(rows, "regal"))] if "regal" in systems else []
    if "brkga" in settings.methods:
        parts.append(tables.regal_report(rows, settings.objective))
    return "\n\n".join(parts)


def policy(settings: Settings, folder: Path) -> Path | None:
    """The policy file to test: --policy, the shipped one (None), or one trained in ``folder``."""
    if settings.policy is not None:
        return policy_file(settings.policy)
    _, training, validation = experiment.corpus(settings, settings.validation_ops)
    with progress.bar("training regal", settings.training.steps) as update:
        return regal_dispatch.train(
            training,
            validation,
            policy=settings.dispatch,
            pool=settings.pool,
            config=settings.training,
            directory=folder / "training",
            on_step=lambda step, found: update(step, f"loss {found['loss']:.3f}"),
            on_progress=lambda label, done, total: update(0, f"{label}: {done} of {total}"),
        )

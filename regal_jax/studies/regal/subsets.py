"""REGAL on subsets of its actions: a policy for each, trained alike, and table 3."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regal_jax.environments.schedule import Objective
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.methods.pretrained import shipped_policy
from regal_jax.studies.flags import option
from regal_jax.studies.regal import ablation_tables, actions, experiment, training_sweep
from regal_jax.studies.regal.training_sweep import TrainingRun
from regal_jax.training import hosts

OBJECTIVE: Objective = "peak_memory"
FIGURE_7 = "placement+scheduling"
"""The policy whose actions are looked at, if none is given."""

TestGraphs = Mapping[str, Sequence[ComputationGraph]]
"""By setting."""


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings, experiment.XlaGraphs):
    """Which policies are trained, and what they are compared on."""

    subsets: tuple[str, ...] = option(actions.SUBSETS, "Rows of table 3.")
    xla_graphs: int = option(10_000, "Most XLA graphs.")


def report(settings: Settings, folder: Path) -> None:
    """Prints table 3 of the subsets, unless a policy is given, and figure 7's table."""
    test, policies = experiment.test_graphs(settings), {}
    if settings.policy is None:
        policies = train(settings, folder)
        print(table_3(settings, test, policies, folder))
    policy = given_policy(settings) or policies.get(FIGURE_7)
    if policy is not None:
        graphs = next(iter(test.values()))
        print(actions.figure_7(graphs, policy, folder, OBJECTIVE))


def given_policy(settings: Settings) -> Path | None:
    """The file of --policy."""
    if settings.policy == "shipped":
        return shipped_policy(OBJECTIVE)
    return None if settings.policy is None else Path(settings.policy)


def train(settings: Settings, folder: Path) -> dict[str, Path]:
    """A policy for each subset, trained on the same graphs; all but the first process end then."""
    runs = [
        TrainingRun(name, actions.with_actions(settings.regal, name), settings.training)
        for name in settings.subsets
    ]
    training_sweep.train_all(
        runs,
        lambda: training_sweep.load_corpus(settings),
        objective=OBJECTIVE,
        directory=folder,
        validate_every=settings.validate_every,
    )
    hosts.leave()
    return {run.name: folder / run.name / "best.policy" for run in runs}


def table_3(
    settings: Settings, test: TestGraphs, policies: Mapping[str, Path], folder: Path
) -> str:
    """Each policy against BRKGA of the same budget."""
    evaluations = settings.test_evaluations
    validation = training_sweep.load_corpus(settings).validation
    sets = actions.graph_sets(validation, test, experiment.xla_graphs(settings))
    rows: list[dict] = []
    for run, policy in actions.runs(policies, evaluations):
        own = {"regal_paper": policy}
        rows += experiment.compare(
            sets,
            [run],
            folder,
            settings,
            num_devices=settings.regal.num_devices,
            objective=OBJECTIVE,
            policies=own,
        )
    found = actions.improvements(rows, list(sets), list(policies))
    counts = ", ".join(f"{name} {len(graphs)}" for name, graphs in sets.items())
    title = f"improvement over brkga {evaluations}, mean and 95% interval"
    return f"{title}; graphs: {counts}\n{ablation_tables.table_3(found)}"

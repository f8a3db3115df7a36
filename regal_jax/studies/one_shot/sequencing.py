"""Sequencing by a network: trained by self-labelling, and held against its control and others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regal_jax.datasets import job_shop, machine_corpora
from regal_jax.datasets.task_graphs import Bounds
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.policies.sequencing import SequencingConfig
from regal_jax.reporting import progress
from regal_jax.studies.comparison.searches import Run
from regal_jax.studies.flags import group, option
from regal_jax.studies.one_shot import comparison, corpora, runs
from regal_jax.studies.one_shot.settings import Comparison, Graphs
from regal_jax.studies.settings import GivenPolicy, Output, policy_file
from regal_jax.training.sequencing import SelfLabelling, train_sequencing

LEARNED = "sequencing"
METHODS = (
    *(LEARNED, "giffler_thompson", "one_shot", "noisy_rule"),
    *("critical_path", "mopnr", "justification", "auto"),
)


@dataclass(frozen=True, kw_only=True)
class Settings(Output, GivenPolicy, Comparison, Graphs):
    """How a policy is trained, and what it is tested on."""

    methods: tuple[str, ...] = option(METHODS, "What to run.")
    families: tuple[str, ...] = option((), "Test graphs: families of the literature's job shops.")
    train_settings: tuple[str, ...] = option((), "Fresh training graphs.", least=1)
    epoch_graphs: int = option(200, "Fresh graphs of an epoch.")
    validation_settings: tuple[str, ...] = option((), "Fresh validation graphs.", least=1)
    validation_graphs: int = option(24, "Of them.")
    sequencing: SequencingConfig = group(SequencingConfig())
    training: SelfLabelling = group(SelfLabelling())


def run(settings: Settings, folder: Path) -> None:
    """Trains the policy unless one is given, runs everything, and prints a table a setting."""
    found = policy(settings, folder) if LEARNED in settings.methods else None
    if settings.settings:
        _compare(corpora.test_graphs(settings), {}, found, settings, folder)
    if settings.families:
        known = job_shop.classic_bounds()
        bounds = {name: Bounds(b["lower_bound"], b["upper_bound"]) for name, b in known.items()}
        graphs = corpora.classic_job_shops(settings.families, settings.test_graphs)
        _compare(graphs, bounds, found, settings, folder)


def policy(settings: Settings, folder: Path) -> Path | None:
    """The policy file to test: --policy, the shipped one (None), or one trained in ``folder``."""
    if settings.policy is not None:
        return policy_file(settings.policy)
    config = settings.training

    def fresh(epoch: int) -> list[ComputationGraph]:
        stream = (machine_corpora.TRAINING, config.seed, epoch)
        return machine_corpora.fresh_graphs(
            settings.train_settings, settings.epoch_graphs, stream, settings.data_dir
        )

    validation = machine_corpora.fresh_graphs(
        settings.validation_settings,
        settings.validation_graphs,
        (machine_corpora.VALIDATION,),
        settings.data_dir,
    )
    steps = config.epochs * -(-settings.epoch_graphs // config.batch_size)
    with progress.bar("training sequencing", steps) as update:
        return train_sequencing(
            fresh,
            validation,
            epoch_graphs=settings.epoch_graphs,
            policy=settings.sequencing,
            config=config,
            directory=folder / "training",
            about={"train_settings": list(settings.train_settings)},
            on_step=lambda step, metrics: update(step, f"cost {metrics['cost']:.3f}"),
        )


def _compare(
    graphs: Mapping[str, Sequence[ComputationGraph]],
    bounds: Mapping[str, Bounds],
    found: Path | None,
    settings: Settings,
    folder: Path,
) -> None:
    some: list[Run] = []
    for method in settings.methods:
        if method in runs.SAMPLED:
            some += runs.sampled(method, method, found if method == LEARNED else None, settings)
        else:
            some += [runs.baseline(method, settings)]
    by_setting = dict.fromkeys(graphs, some)
    rows = comparison.compare(graphs, by_setting, folder, settings.seeds, bounds)
    best_known = {name: bound.upper for name, bound in bounds.items()} or None
    comparison.report(rows, graphs, by_setting, best_known=best_known)

"""Sequencing by a network: trained by self-labelling, and held against its control and others."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from regal_jax.datasets.task_graphs import Bounds
from regal_jax.environments.sequencing.choices import BACKWARDS
from regal_jax.policies.choosing import SequencingConfig
from regal_jax.reporting import progress
from regal_jax.studies.flags import group, option
from regal_jax.studies.one_shot import comparison, corpora, runs
from regal_jax.studies.one_shot.settings import Comparison, Graphs
from regal_jax.studies.settings import GivenPolicy, Output, policy_file
from regal_jax.training import self_labelling
from regal_jax.training.choosing import train_choosing
from regal_jax.training.self_labelling import SelfLabelling

LEARNED = "sequencing"
METHODS = (
    *(LEARNED, "giffler_thompson", "one_shot", "noisy_rule"),
    *("critical_path", "mopnr", "justification", "tabu", "auto"),
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
    methods = [runs.asked(name)[0] for name in settings.methods]
    found = policy(settings, folder) if LEARNED in methods else None
    some = runs.runs(found, settings, LEARNED)
    tests: list[tuple[comparison.Graphs, Mapping[str, Bounds]]] = []
    if settings.settings:
        tests.append((corpora.test_graphs(settings), {}))
    if settings.families:
        tests.append(corpora.classic_job_shops(settings.families, settings.test_graphs))
    for graphs, bounds in tests:
        by_setting = dict.fromkeys(graphs, some)
        rows = comparison.compare(graphs, by_setting, folder, settings, bounds)
        comparison.report(rows, graphs, by_setting, bounds)


def policy(settings: Settings, folder: Path) -> Path | None:
    """The policy file to test: --policy, the shipped one (None), or one trained in ``folder``."""
    if settings.policy is not None:
        return policy_file(settings.policy)
    config, names, count = settings.training, settings.train_settings, settings.epoch_graphs
    steps = config.epochs * -(-count // config.batch_size)
    with progress.bar("training sequencing", steps) as update:
        return train_choosing(
            BACKWARDS,
            corpora.fresh_epochs(names, config.seed, count, settings.data_dir),
            corpora.validation_graphs(
                settings.validation_settings, settings.validation_graphs, settings.data_dir
            ),
            learner=self_labelling.learner,
            epoch_graphs=count,
            policy=settings.sequencing,
            config=config,
            directory=folder / "training",
            about={"train_settings": list(names)},
            on_step=lambda step, metrics: update(step, f"cost {metrics['cost']:.3f}"),
        )

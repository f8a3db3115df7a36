"""What REGAL's experiments share: settings, test graphs, a policy, a comparison, table 1."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regal_jax.datasets import corpora
from regal_jax.environments.schedule import Objective
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.studies.comparison import searches
from regal_jax.studies.comparison.searches import Run
from regal_jax.studies.corpus import Corpus
from regal_jax.studies.flags import group, option
from regal_jax.studies.regal import tables
from regal_jax.studies.settings import Executor, GivenPolicy, Hosts, Output, policy_file
from regal_jax.training import hosts
from regal_jax.training.regal import TrainingConfig, train_regal


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Where graphs come from."""

    dataset: str = option("model_zoo", "model_zoo, synthetic, or a folder.")


@dataclass(frozen=True, kw_only=True)
class Graphs(Dataset):
    """Which graphs to test on."""

    test_ops: int = option(100_000, "Largest test graph in ops, after splitting.")
    test_graphs: int = option(10_000, "Most test graphs, evenly over sizes.")
    microbatches: tuple[int, ...] = option((1, 4), "Splits of the test graphs.", least=1)


@dataclass(frozen=True, kw_only=True)
class XlaGraphs(Graphs):
    """XLA's own graphs, too: these are larger than those that policies are trained on."""

    xla_graphs: int = option(32, "Most XLA graphs; the paper has 32.")


@dataclass(frozen=True, kw_only=True)
class Memory:
    """How much of it devices have."""

    memory_capacity: int | None = option(
        None, "Bytes of memory of a device, in training and tests; the workshop paper has 16 GiB."
    )


@dataclass(frozen=True, kw_only=True)
class Searches(Memory, Executor):
    """What to run on them, on which platform."""

    methods: tuple[str, ...] = option(("brkga", "regal_paper"), "What to run.", least=1)
    test_evaluations: int = option(5000, "Budget of each search.")
    seeds: int = option(5, "Seeds of each search.")
    time_limit: float | None = option(None, "Seconds of a search, for methods without evaluations.")
    latency: float = option(0.0, "us of a tensor that crosses devices.")
    per_byte: float = option(0.0, "us per byte that crosses devices.")
    transfer_share: float = option(
        0.0,
        "What a tensor that crosses devices takes more, and one of mean size once more, in mean"
        " durations of the graph's ops.",
    )
    memory_share: float | None = option(
        None, "Memory of a device, as a share of the best simple peak on one device."
    )


@dataclass(frozen=True, kw_only=True)
class Training(Dataset, Memory):
    """How policies are trained, and on what."""

    copies: int = option(3, "Training graphs with other sizes, of each graph.")
    train_graphs: int = option(10_000, "Most real training graphs, before copying.")
    train_ops: int = option(300, "Largest training graph, in ops.")
    validation_graphs: int = option(40, "Most validation graphs.")
    validate_every: int = option(500, "Steps between validations.")
    regal: RegalConfig = group(RegalConfig())
    training: TrainingConfig = group(TrainingConfig())


@dataclass(frozen=True, kw_only=True)
class Policy(GivenPolicy, Training):
    """Where the policy comes from."""

    initial_policy: str | None = option(None, "Policy file to train on from.")


@dataclass(frozen=True, kw_only=True)
class Settings(Output, Graphs, Searches, Policy, Hosts):
    """A policy against other methods on unseen graphs."""


def corpus(settings: Any, validation_ops: int | None = None) -> Corpus[list[ComputationGraph]]:
    """Training and validation graphs (see ``datasets.corpora``) of ``Training``, or of what has its
    fields; those of validation may have another limit of ops."""
    return Corpus(
        settings.dataset,
        corpora.training_graphs(
            settings.dataset,
            settings.copies,
            settings.train_ops,
            max_graphs=settings.train_graphs,
        ),
        corpora.validation_graphs(
            settings.dataset,
            validation_ops or settings.train_ops,
            max_graphs=settings.validation_graphs,
        ),
    )


def policy(settings: Policy, objective: Objective, folder: Path) -> Path | None:
    """The policy file to test: --policy, the shipped one (None), or one trained in ``folder``.

    Where several processes train, all but the first end then.
    """
    if settings.policy is not None:
        return policy_file(settings.policy)
    _, training, validation = corpus(settings)
    path = train_regal(
        training,
        validation,
        objective=objective,
        memory_capacity=settings.memory_capacity,
        regal=settings.regal,
        config=settings.training,
        directory=folder / "training",
        validate_every=settings.validate_every,
        initial_policy=settings.initial_policy,
    )
    hosts.leave()
    return path


def test_graphs(settings: Graphs) -> dict[str, list[ComputationGraph]]:
    """Test graphs by setting: "as traced", "4 microbatches" and so on."""
    return corpora.test_settings(
        settings.dataset,
        microbatches=settings.microbatches,
        max_ops=settings.test_ops,
        max_graphs=settings.test_graphs,
    )


def xla_graphs(settings: XlaGraphs) -> list[ComputationGraph]:
    """XLA's graphs of the test families."""
    return corpora.xla_graphs(
        settings.dataset, max_ops=settings.test_ops, max_graphs=settings.xla_graphs
    )


def graphs_with_xla(settings: XlaGraphs) -> dict[str, list[ComputationGraph]]:
    """Test graphs by setting, of which "XLA" is the last."""
    return test_graphs(settings) | {"XLA": xla_graphs(settings)}


def compare(
    graphs: Mapping[str, Sequence[ComputationGraph]],
    runs: Sequence[Run],
    folder: Path,
    settings: Searches,
    *,
    num_devices: int,
    objective: Objective,
    policies: Mapping[str, str | Path | None],
) -> list[dict]:
    """Rows of ``searches.compare`` on so many devices.

    ``policies`` are files by name of the method (None: the shipped one).
    """
    return searches.compare(
        graphs,
        runs,
        seeds=settings.seeds,
        path=folder / "results.csv",
        platform=searches.PlatformRule(
            num_devices,
            settings.latency,
            settings.per_byte,
            settings.memory_share,
            settings.memory_capacity,
            settings.transfer_share,
        ),
        objective=objective,
        policies=policies,
        time_limit=settings.time_limit,
        executor=settings.executor,
    )


def table_1(settings: Settings, objective: Objective, folder: Path) -> str:
    """Table 1 for an objective: the policy against the methods."""
    if "brkga" not in settings.methods:
        raise OptionError("methods: improvements are over brkga; name it, too")
    learned = [name for name in ("regal_paper", "idrs") if name in settings.methods]
    found = policy(settings, objective, folder) if learned else None
    policies: dict[str, str | Path | None] = dict.fromkeys(learned, found)
    runs = tables.regal_runs(settings.methods, settings.test_evaluations)
    rows = compare(
        test_graphs(settings),
        runs,
        folder,
        settings,
        num_devices=settings.regal.num_devices,
        objective=objective,
        policies=policies,
    )
    return tables.regal_report(rows, objective)

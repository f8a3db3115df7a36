"""Figures 3 and 5 of gflownet_robust_scheduling in numbers: temperatures of inference and of
training."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regal_jax.datasets.makespan_graphs import makespan_graph, makespan_graphs
from regal_jax.reporting import results
from regal_jax.studies import keys
from regal_jax.studies.comparison import candidates
from regal_jax.studies.corpus import Corpus
from regal_jax.studies.flags import option
from regal_jax.studies.gflownet import comparison, report, tables, training
from regal_jax.studies.gflownet.settings import Training
from regal_jax.studies.kept import KEY

SETTING = "training temperatures"


@dataclass(frozen=True, kw_only=True)
class Settings(Training):
    """Which temperatures, on which graphs."""

    regimes: tuple[str, ...] = option(
        ("0.01", "0.03", "0.01:1"), "Of training, in figure 5: T or LOW:HIGH."
    )
    temperatures: tuple[float, ...] = option((1.0, 0.3, 0.1, 0.03, 0.01, 0.005), "Of figure 3.")
    policy: str | None = option(None, "Of figure 3, or 'shipped'; else the last regime's.")
    samples: int = option(1000, "Schedules of figure 3 at each temperature.")
    train_graphs: int = option(1000, "Training graphs.")
    test_graphs: int = option(50, "Unseen graphs of figure 5, in turns of five families.")
    graph_ops: int = option(50, "Ops of each of these graphs.")
    small_graph_ops: int = option(25, "Ops of the Erdos-Renyi graph of figure 3.")


def train(settings: Settings, folder: Path) -> dict[str, list[Path]]:
    """GFlowNets by regime, one for each seed."""
    regimes = {name: training.regime(name) for name in settings.regimes}
    counts = (("train", settings.train_graphs), ("test", settings.test_graphs))
    train, test = (list(makespan_graphs(*split, settings.graph_ops)) for split in counts)
    return training.train_variants(Corpus("random graphs", train, test), folder, regimes, settings)


def report_regimes(files: dict[str, list[Path]], folder: Path) -> None:
    """The rows of figure 5, and their means."""
    rows = report.report_variants(files, SETTING, folder)
    report.print_pairs(rows, SETTING, list(files)[-1], ["validation_top_1"])


def report_temperatures(policy: Path | None, settings: Settings, folder: Path) -> None:
    """The rows of figure 3, and their means."""
    graph, count = makespan_graph("erdos_renyi", 0, settings.small_graph_ops), settings.samples
    sampled = comparison.sampled(graph, policy, settings.temperatures, count, settings.num_devices)
    setting = f"{count} schedules at each temperature"
    about: dict[str, Any] = {"graph": graph.name, "seed": 0, "setting": setting}
    about[KEY] = keys.key(
        graph=graph,
        policy=keys.policy_content(policy),
        samples=count,
        num_devices=settings.num_devices,
    )
    about["ops"] = graph.num_ops
    rows = [
        about | {"method": name, "metric": metric, "value": value}
        for name, some in sampled.items()
        for metric, value in _spread(candidates.speedups(graph, some, settings.num_devices)).items()
    ]
    results.write_results(folder / "samples.csv", rows, (KEY, "setting", "ops"))
    title = f"{graph.name}: speedups of {setting}"
    print(tables.text(title, tables.over_seeds(rows, setting)))


def _spread(values: np.ndarray) -> dict[str, float]:
    return {"mean": values.mean(), "deviation": values.std(), "best": values.max()}

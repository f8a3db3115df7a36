"""Figures 3 and 5 of gflownet_robust_scheduling in numbers: temperatures of inference and of
training."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regal_jax.datasets.makespan_graphs import makespan_graph, makespan_graphs
from regal_jax.reporting import results, tables
from regal_jax.studies.comparison import candidates
from regal_jax.studies.corpus import Corpus
from regal_jax.studies.flags import option
from regal_jax.studies.gflownet import comparison, report, training
from regal_jax.studies.gflownet.settings import Training

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
    speedups = {
        name: candidates.speedups(graph, some, settings.num_devices)
        for name, some in sampled.items()
    }
    results.write_results(folder / "samples.csv", _rows(graph.name, speedups))
    print(f"{graph.name}: speedups of {count} schedules at each temperature")
    print(tables.text_table([_line(name, values) for name, values in speedups.items()]))


def _rows(graph: str, speedups: dict[str, np.ndarray]) -> list[results.Row]:
    """A seed for each schedule."""
    return [
        {"graph": graph, "method": name, "metric": "speedup", "seed": index, "value": value}
        for name, values in speedups.items()
        for index, value in enumerate(values.tolist())
    ]


def _line(name: str, values: np.ndarray) -> dict:
    numbers = {"mean": values.mean(), "deviation": values.std(), "best": values.max()}
    return {"temperature": name} | numbers

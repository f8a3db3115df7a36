"""What figure 2 of gflownet_robust_scheduling shows: schedules of one graph on the proxy and on
targets."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import results
from regal_jax.studies.comparison import candidates
from regal_jax.studies.flags import option
from regal_jax.studies.gflownet import comparison
from regal_jax.studies.gflownet.settings import Comparison

NEAR = 0.95
"""Schedules with so much of the best speedup on the proxy are good ones."""


@dataclass(frozen=True, kw_only=True)
class Settings(Comparison):
    """Table 1, and figure 2."""

    scatter_temperatures: tuple[float, ...] = option((0.005, 0.03, 0.1, 0.3, 1.0), "Of figure 2.")
    scatter_samples: int = option(250, "Schedules of each of them.")


def report_targets(
    graph: ComputationGraph, policy: Path | None, settings: Settings, folder: Path
) -> None:
    """The rows of figure 2, and what is to be seen in them."""
    temperatures, count = settings.scatter_temperatures, settings.scatter_samples
    sampled = comparison.sampled(graph, policy, temperatures, count, settings.num_devices)
    rows = candidates.scatter(graph, sampled, comparison.trial(settings))
    results.write_results(folder / "scatter.csv", rows)
    speedups = {
        metric: np.array([row["value"] for row in rows if row["metric"] == metric])
        for metric in dict.fromkeys(row["metric"] for row in rows)
    }
    proxy = speedups.pop("proxy")
    for name, speedup in speedups.items():
        good = speedup[proxy >= NEAR * proxy.max()]
        print(
            f"{name}: correlation with the proxy {correlation(proxy, speedup):.2f}; the"
            f" {len(good)} schedules at {NEAR:.0%} of the best proxy or above: {good.min():.2f} to"
            f" {good.max():.2f}"
        )


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's; NaN where one is constant."""
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])

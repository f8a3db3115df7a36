"""Figure 2 of gflownet_robust_scheduling: schedules of one graph on the proxy and on targets."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import figures, results
from regal_jax.studies.comparison import candidates
from regal_jax.studies.flags import option
from regal_jax.studies.gflownet import comparison, plots
from regal_jax.studies.gflownet.settings import Comparison

NEAR = 0.95
"""Schedules with so much of the best speedup on the proxy are good ones."""


@dataclass(frozen=True, kw_only=True)
class Settings(Comparison):
    """Table 1, and figure 2."""

    scatter_temperatures: tuple[float, ...] = option((0.005, 0.03, 0.1, 0.3, 1.0), "Of figure 2.")
    scatter_samples: int = option(250, "Schedules of each of them.")


def draw_targets(
    graph: ComputationGraph, policy: Path | None, settings: Settings, folder: Path
) -> None:
    """Figure 2, its numbers as rows, and what is to be seen in it."""
    temperatures, count = settings.scatter_temperatures, settings.scatter_samples
    sampled = comparison.sampled(graph, policy, temperatures, count, settings.num_devices)
    rows = candidates.scatter(graph, sampled, comparison.trial(settings))
    results.write_results(folder / "scatter.csv", rows)
    speedups = {
        metric: np.array([row["value"] for row in rows if row["metric"] == metric])
        for metric in dict.fromkeys(row["metric"] for row in rows)
    }
    proxy = speedups.pop("proxy")
    for name, correlation in plots.correlations(proxy, speedups).items():
        good = speedups[name][proxy >= NEAR * proxy.max()]
        print(
            f"{name}: correlation with the proxy {correlation:.2f}; the {len(good)} schedules at"
            f" {NEAR:.0%} of the best proxy or above: {good.min():.2f} to {good.max():.2f}"
        )
    draw = plots.plot_proxy_against_targets
    figures.drawn(draw, proxy, speedups, folder / "figure_2.png")

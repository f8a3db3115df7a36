"""Robustness to errors of the proxy, on one graph (table 1, figure 2 of
gflownet_robust_scheduling).

  python experiments/gflownet_robust.py \\
    --flagfile=experiments/flags/smoke/gflownet_robust.flags

Each seed trains a GFlowNet and PPO on the very graph that is tested (section 5.1), and is the seed
of the other samplers; means are over the seeds. The graph is one of ours (``flow_corpora.SINGLE``),
since the paper's isn't public. Figure 2 has schedules of the first GFlowNet at several
temperatures; the paper doesn't tell which are in its. Results are rows of a CSV; an interrupted run
resumes, in its training, too.
"""

from pathlib import Path

import numpy as np
from absl import flags

from regal_jax.datasets import flow_corpora
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import figures, results
from regal_jax.studies import launch
from regal_jax.studies.comparison import candidates
from regal_jax.studies.gflownet import experiment as gflownet_experiment
from regal_jax.studies.gflownet import plots, tables
from regal_jax.studies.gflownet.experiment import Corpus
from regal_jax.studies.regal import experiment as regal_experiment

FLAGS = flags.FLAGS
NEAR = 0.95
"""Schedules with so much of the best speedup on the proxy are good ones."""

flags.DEFINE_list("scatter_temperatures", ["0.005", "0.03", "0.1", "0.3", "1"], "Of figure 2.")
flags.DEFINE_integer("scatter_samples", 250, "Schedules of each of them.")
regal_experiment.define_output("results/gflownet_robust")
gflownet_experiment.define_comparison()
gflownet_experiment.define_policies(retrain=True)


def main(_) -> None:
    output, graph = regal_experiment.output_dir(), flow_corpora.single_graph()
    policies = gflownet_experiment.policies(Corpus(graph.name, [graph], [graph]), output)
    rows = gflownet_experiment.compare({"one graph": [graph]}, policies, output)
    rows = gflownet_experiment.chosen(rows, ["one graph"])
    gflownet_experiment.report(rows, "one graph", tables.over_seeds, tables.PAPER_TABLE_1)
    gflownet_experiment.draw_training(output)
    if ("gflownet", 0) in policies and FLAGS.targets:
        draw_targets(graph, policies["gflownet", 0], output)


def draw_targets(graph: ComputationGraph, policy: Path | None, output: Path) -> None:
    """Figure 2, its numbers as rows, and what is to be seen in it."""
    temperatures, count = FLAGS.scatter_temperatures, FLAGS.scatter_samples
    found = gflownet_experiment.sampled(graph, policy, temperatures, count)
    rows = candidates.scatter(graph, found, gflownet_experiment.trial())
    results.write_results(output / "scatter.csv", rows)
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
    figures.drawn(draw, proxy, speedups, output / "figure_2.png")


if __name__ == "__main__":
    launch.run(main)

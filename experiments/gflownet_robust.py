"""Robustness to errors of the proxy, on one graph (table 1 of gflownet_robust_scheduling).

  python experiments/gflownet_robust.py \\
    --flagfile=experiments/flags/smoke/gflownet_robust.flags

Each seed trains a GFlowNet and PPO on the very graph that is tested (section 5.1), and is the seed
of the other samplers; means are over the seeds. The graph is one of ours (``flow_corpora.SINGLE``),
since the paper's isn't public. Results are rows of a CSV; an interrupted run resumes, in its
training, too.
"""

from absl.flags import FLAGS

from regal_jax.datasets import flow_corpora
from regal_jax.studies import launch
from regal_jax.studies.corpus import Corpus
from regal_jax.studies.gflownet import comparison, report, tables, training
from regal_jax.studies.gflownet.settings import Comparison

DEFAULTS = Comparison(output_dir="results/gflownet_robust", retrain=True)


def main(settings, folder) -> None:
    output, graph = folder(), flow_corpora.single_graph()
    policies = training.policies(Corpus(graph.name, [graph], [graph]), output, settings)
    rows = comparison.compare({"one graph": [graph]}, policies, output, settings)
    report.report(rows, "one graph", tables.over_seeds, settings, tables.PAPER_TABLE_1)


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)

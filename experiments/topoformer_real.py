"""Topoformer on real graphs: train or load a policy, compare it on unseen families
(table 2 of neural_topological_ordering).

  python experiments/topoformer_real.py --flagfile=experiments/flags/smoke/topoformer_real.flags

The paper's 115 graphs aren't public; these are of the package (or of a folder), split by
architecture family, and in one stratum more, of larger graphs. A second table of each stratum has
only those graphs where orders differ. Results are rows of a CSV; an interrupted run resumes.
"""

from pathlib import Path

from absl.flags import FLAGS

from regal_jax.studies import launch
from regal_jax.studies.topoformer import comparison, graphs, training
from regal_jax.studies.topoformer.settings import Real
from regal_jax.studies.topoformer.tables import PAPER_TABLE_2

RULES = ("random_orders", "depth_first", "breadth_first", "lpmf", "xla_list", "xla_dfs", "auto")
DEFAULTS = Real(
    output_dir="results/topoformer_real",
    methods=("approximate_dp", "depth_first_dp", *RULES, "topoformer"),
)


def main(settings, folder) -> None:
    output = folder()
    comparison.reference(settings)
    found = graphs.real_graphs(settings.dataset)
    tests = graphs.real_tests(found["test"], settings)

    def train() -> Path:
        corpus = graphs.real_corpus(settings, found["train"], found["valid"])
        return training.train(output / "training", corpus, settings)

    policies = training.policies(settings, train, shipped="peak_memory")
    runs = comparison.runs(policies, settings)
    rows = comparison.compare(tests, runs, output, settings)
    comparison.report(rows, list(tests), runs, settings, PAPER_TABLE_2)
    for setting in tests:
        comparison.report_headroom(rows, setting, runs, settings, PAPER_TABLE_2)


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)

"""Topoformer on layered graphs: train or load a policy, compare it on unseen ones (table
1 of neural_topological_ordering).

  python experiments/topoformer_layered.py \\
    --flagfile=experiments/flags/smoke/topoformer_layered.flags

Training, validation and test graphs are of different seeds (``graphs.TEST_SEED``). Results
are rows of a CSV; an interrupted run resumes, in its training, too.
"""

from absl.flags import FLAGS

from regal_jax.studies import launch
from regal_jax.studies.topoformer import comparison, graphs, training
from regal_jax.studies.topoformer.settings import OneLayered
from regal_jax.studies.topoformer.tables import PAPER_TABLE_1

RULES = ("random_orders", "depth_first", "breadth_first", "lpmf", "xla_list", "xla_dfs")
DEFAULTS = OneLayered(
    output_dir="results/topoformer_layered",
    test_nodes=(500, 1000, 2000),
    methods=("approximate_dp", "depth_first_dp", *RULES, "topoformer"),
)


def main(settings, folder) -> None:
    output = folder()
    comparison.reference(settings)
    policies = training.policies(
        settings,
        lambda: training.train(output / "training", graphs.layered_corpus(settings), settings),
        shipped="layered",
    )
    runs = comparison.runs(policies, settings)
    tests = graphs.layered_tests(settings.test_nodes, settings.test_graphs)
    rows = comparison.compare(tests, runs, output, settings)
    comparison.report(rows, list(tests), runs, settings, PAPER_TABLE_1)


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)

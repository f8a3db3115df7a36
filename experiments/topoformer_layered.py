"""Topoformer on layered graphs: train or load a policy, compare it on unseen ones (table 1, figure
2 of neural_topological_ordering).

  python experiments/topoformer_layered.py \\
    --flagfile=experiments/flags/smoke/topoformer_layered.flags

Training, validation and test graphs are of different seeds (``ordering_study.TEST_SEED``). Results
are rows of a CSV; an interrupted run resumes, in its training, too.
"""

from regal_jax import launch, ordering_study, study
from regal_jax.reporting.ordering_tables import PAPER_TABLE_1

RULES = ["random_orders", "depth_first", "breadth_first", "lpmf", "xla_list", "xla_dfs"]

study.define_output("results/topoformer_layered")
ordering_study.define_layered(test_nodes=(500, 1000, 2000))
ordering_study.define_comparison(methods=["approximate_dp", "depth_first_dp", *RULES, "topoformer"])
ordering_study.define_policy()
ordering_study.define_training()


def main(_) -> None:
    output = study.output_dir()
    ordering_study.reference()
    policies = ordering_study.policies(
        lambda: ordering_study.train_layered(output / "training"), shipped="layered"
    )
    runs, graphs = ordering_study.runs(policies), ordering_study.layered_tests()
    rows = ordering_study.compare(graphs, runs, output)
    lines = ordering_study.report(rows, list(graphs), runs, PAPER_TABLE_1)
    ordering_study.plot(lines, output / "figure_2.png", "Peak memory of layered graphs")


if __name__ == "__main__":
    launch.run(main)

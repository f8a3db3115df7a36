"""Topoformer on layered graphs: train or load a policy, compare it on unseen ones (table 1, figure
2 of neural_topological_ordering).

  python experiments/topoformer_layered.py \\
    --flagfile=experiments/flags/smoke/topoformer_layered.flags

Training, validation and test graphs are of different seeds (``experiment.TEST_SEED``). Results
are rows of a CSV; an interrupted run resumes, in its training, too.
"""

from regal_jax.studies import launch
from regal_jax.studies.regal import experiment as regal_experiment
from regal_jax.studies.topoformer import experiment as topoformer_experiment
from regal_jax.studies.topoformer.tables import PAPER_TABLE_1

RULES = ["random_orders", "depth_first", "breadth_first", "lpmf", "xla_list", "xla_dfs"]

regal_experiment.define_output("results/topoformer_layered")
topoformer_experiment.define_layered(test_nodes=(500, 1000, 2000))
topoformer_experiment.define_comparison(
    methods=["approximate_dp", "depth_first_dp", *RULES, "topoformer"]
)
topoformer_experiment.define_policy()
topoformer_experiment.define_training()


def main(_) -> None:
    output = regal_experiment.output_dir()
    topoformer_experiment.reference()
    policies = topoformer_experiment.policies(
        lambda: topoformer_experiment.train_layered(output / "training"), shipped="layered"
    )
    runs, graphs = topoformer_experiment.runs(policies), topoformer_experiment.layered_tests()
    rows = topoformer_experiment.compare(graphs, runs, output)
    lines = topoformer_experiment.report(rows, list(graphs), runs, PAPER_TABLE_1)
    topoformer_experiment.plot(lines, output / "figure_2.png", "Peak memory of layered graphs")


if __name__ == "__main__":
    launch.run(main)

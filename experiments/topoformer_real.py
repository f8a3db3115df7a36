"""Topoformer on real graphs: train or load a policy, compare it on unseen families (table 2, figure
3 of neural_topological_ordering).

  python experiments/topoformer_real.py --flagfile=experiments/flags/smoke/topoformer_real.flags

The paper's 115 graphs aren't public; these are of the package (or of a folder), split by
architecture family, and in one stratum more, of larger graphs. A second table of each stratum has
only those graphs where orders differ. Results are rows of a CSV; an interrupted run resumes.
"""

from regal_jax.studies import launch
from regal_jax.studies.regal import experiment as regal_experiment
from regal_jax.studies.topoformer import experiment as topoformer_experiment
from regal_jax.studies.topoformer import tables
from regal_jax.studies.topoformer.tables import PAPER_TABLE_2

RULES = ["random_orders", "depth_first", "breadth_first", "lpmf", "xla_list", "xla_dfs", "auto"]

regal_experiment.define_output("results/topoformer_real")
topoformer_experiment.define_real()
topoformer_experiment.define_comparison(
    methods=["approximate_dp", "depth_first_dp", *RULES, "topoformer"]
)
topoformer_experiment.define_policy()
topoformer_experiment.define_training()


def main(_) -> None:
    output, reference = regal_experiment.output_dir(), topoformer_experiment.reference()
    found = topoformer_experiment.real_graphs()
    graphs = topoformer_experiment.real_tests(found["test"])
    policies = topoformer_experiment.policies(
        lambda: topoformer_experiment.train_real(
            output / "training", found["train"], found["valid"]
        ),
        shipped="peak_memory",
    )
    runs = topoformer_experiment.runs(policies)
    rows = topoformer_experiment.compare(graphs, runs, output)
    lines = topoformer_experiment.report(rows, list(graphs), runs, PAPER_TABLE_2)
    for setting in graphs:
        report_headroom(rows, setting, [run.label for run in runs], reference)
    topoformer_experiment.plot(lines, output / "figure_3.png", "Peak memory of real graphs")


def report_headroom(rows, setting: str, labels: list[str], reference: str) -> None:
    """Prints a setting's table of the graphs with headroom."""
    subset = tables.with_headroom(rows, setting)
    title = f"{setting}, graphs with at least {tables.HEADROOM:.0f} % headroom"
    if not subset:
        print(f"{title}: none\n")
        return
    lines = tables.summary(rows, setting, labels, reference, subset=subset)
    print(tables.text(title, lines, PAPER_TABLE_2.get(setting, {})) + "\n")


if __name__ == "__main__":
    launch.run(main)

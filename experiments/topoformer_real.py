"""Topoformer on real graphs: train or load a policy, compare it on unseen families (table 2, figure
3 of neural_topological_ordering).

  python experiments/topoformer_real.py --flagfile=experiments/flags/smoke/topoformer_real.flags

The paper's 115 graphs aren't public; these are of the package (or of a folder), split by
architecture family, and in one stratum more, of larger graphs. A second table of each stratum has
only those graphs where orders differ. Results are rows of a CSV; an interrupted run resumes.
"""

from regal_jax import launch, ordering_study, study
from regal_jax.reporting import ordering_tables
from regal_jax.reporting.ordering_tables import PAPER_TABLE_2

RULES = ["random_orders", "depth_first", "breadth_first", "lpmf", "xla_list", "xla_dfs", "auto"]

study.define_output("results/topoformer_real")
ordering_study.define_real()
ordering_study.define_comparison(methods=["approximate_dp", "depth_first_dp", *RULES, "topoformer"])
ordering_study.define_policy()
ordering_study.define_training()


def main(_) -> None:
    output, reference = study.output_dir(), ordering_study.reference()
    found = ordering_study.real_graphs()
    graphs = ordering_study.real_tests(found["test"])
    policies = ordering_study.policies(
        lambda: ordering_study.train_real(output / "training", found["train"], found["valid"]),
        shipped="peak_memory",
    )
    runs = ordering_study.runs(policies)
    rows = ordering_study.compare(graphs, runs, output)
    lines = ordering_study.report(rows, list(graphs), runs, PAPER_TABLE_2)
    for setting in graphs:
        report_headroom(rows, setting, [run.label for run in runs], reference)
    ordering_study.plot(lines, output / "figure_3.png", "Peak memory of real graphs")


def report_headroom(rows, setting: str, labels: list[str], reference: str) -> None:
    """Prints a setting's table of the graphs with headroom."""
    subset = ordering_tables.with_headroom(rows, setting)
    title = f"{setting}, graphs with at least {ordering_tables.HEADROOM:.0f} % headroom"
    if not subset:
        print(f"{title}: none\n")
        return
    lines = ordering_tables.summary(rows, setting, labels, reference, subset=subset)
    print(ordering_tables.text(title, lines, PAPER_TABLE_2.get(setting, {})) + "\n")


if __name__ == "__main__":
    launch.run(main)

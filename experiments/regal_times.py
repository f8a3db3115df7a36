"""Seconds of every method on real graphs, measured in one run (table 2).

  python experiments/regal_times.py --flagfile=experiments/flags/smoke/regal_times.flags

Each graph is scheduled by one method after another, twice: the first call may compile. Machines
differ; compare the ratios.
"""

from absl import flags

from regal_jax.datasets import corpora
from regal_jax.reporting import progress, tables
from regal_jax.studies import launch
from regal_jax.studies.regal import experiment, method_times

_XLA_GRAPHS = flags.DEFINE_integer("xla_graphs", 32, "Most XLA graphs; the paper has 32.")
_EVALUATIONS = flags.DEFINE_integer("test_evaluations", 5000, "Budget of each search.")
_METHODS = flags.DEFINE_list("methods", list(method_times.METHODS), "What to run.")
flags.DEFINE_enum("objective", "peak_memory", ["peak_memory", "makespan"], "What to minimise.")
experiment.define_output("results/regal_times")
experiment.define_graphs(microbatches=(1,))


def main(_) -> None:
    values, output = flags.FLAGS, experiment.output_dir()
    graphs = experiment.test_graphs()
    graphs["XLA"] = corpora.xla_graphs(
        values.dataset, max_ops=values.test_ops, max_graphs=_XLA_GRAPHS.value
    )
    with progress.bar("timings", 1) as update:
        rows = method_times.measure(
            graphs,
            _METHODS.value,
            evaluations=_EVALUATIONS.value,
            objective=values.objective,
            path=output / "results.csv",
            on_progress=update,
        )
    for setting, members in graphs.items():
        lines = method_times.table(rows, setting, "xla" if setting == "XLA" else "tensorflow")
        if lines:
            print(f"\n{setting} ({len(members)} graphs): seconds a graph, {values.objective}")
            print(tables.text_table(lines))


if __name__ == "__main__":
    launch.run(main)

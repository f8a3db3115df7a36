"""Seconds of every method on real graphs, measured in one run (table 2).

  python experiments/regal_times.py --flagfile=experiments/flags/smoke/regal_times.flags

Each graph is scheduled by one method after another, twice: the first call may compile. Machines
differ; compare the ratios.
"""

from absl.flags import FLAGS

from regal_jax.reporting import tables
from regal_jax.studies import launch
from regal_jax.studies.regal import experiment, method_times
from regal_jax.studies.regal.method_times import Settings

DEFAULTS = Settings(output_dir="results/regal_times")


def main(settings, folder) -> None:
    output, graphs = folder(), experiment.graphs_with_xla(settings)
    rows = method_times.measure(
        graphs,
        settings.methods,
        evaluations=settings.test_evaluations,
        objective=settings.objective,
        path=output / "results.csv",
    )
    for setting, members in graphs.items():
        lines = method_times.table(rows, setting)
        if lines:
            print(f"\n{setting} ({len(members)} graphs): seconds a graph, {settings.objective}")
            print(tables.text_table(lines))


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)

"""What ``auto`` gives up by stopping of itself: costs and seconds then, and at its whole budget.

    python benchmarks/stopping.py

Graphs are of the model zoo's validation split, evenly over sizes. Rows go to
docs/results/auto_stop.csv (an interrupted run goes on), and experiments/results_pages.py makes the
table of them. Seconds are without compilation.
"""

import argparse

from regal_jax import datasets
from regal_jax.datasets.corpora import evenly_by_size
from regal_jax.methods.portfolio import SOME_SECONDS
from regal_jax.options import Options
from regal_jax.studies.comparison.searches import PlatformRule, Run, compare

CASES = (("peak_memory", 1), ("peak_memory", 2), ("makespan", 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", type=int, default=20)
    parser.add_argument("--least_ops", type=int, default=40)
    parser.add_argument("--most_ops", type=int, default=1000)
    parser.add_argument("--path", default="docs/results/auto_stop.csv")
    flags = parser.parse_args()
    zoo = datasets.model_zoo(split="valid")
    fitting = [graph for graph in zoo if flags.least_ops <= graph.num_ops <= flags.most_ops]
    whole = SOME_SECONDS(flags.most_ops, Options())
    runs = [Run("auto", "auto", None), Run("whole budget", "auto", whole)]
    for objective, devices in CASES:
        setting = f"{objective.replace('_', ' ')}, D = {devices}"
        compare(
            {setting: evenly_by_size(fitting, flags.graphs)},
            runs,
            seeds=1,
            path=flags.path,
            objective=objective,
            platform=PlatformRule(num_devices=devices),
            title=setting,
        )


if __name__ == "__main__":
    main()

"""The pure-JAX cost, and BRKGA over it, compiled for GPUs and TPUs that needn't be there.

  python experiments/search_costs.py --flagfile=experiments/flags/smoke/search_costs.flags

Bytes and estimated time of an evaluation, of a batch and of a generation that evaluates as many.
Results are rows of a CSV; a run resumes.
"""

from absl.flags import FLAGS

from regal_jax.reporting import tables
from regal_jax.studies import launch
from regal_jax.studies.compiler import search_costs
from regal_jax.studies.compiler.search_costs import Settings

DEFAULTS = Settings(output_dir="results/search_costs")


def main(settings, folder) -> None:
    rows = search_costs.measure(settings, folder() / "results.csv")
    print(tables.text_table(search_costs.table(rows)))


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)

"""REGAL on peak memory: train or load a policy, compare it on unseen graphs (table 1).

  python experiments/regal_memory.py --flagfile=experiments/flags/smoke/regal_memory.flags

--dataset is model_zoo (the package's real graphs, split by architecture family), synthetic (REGAL's
recipe) or a folder of graph files. Results are rows of a CSV; an interrupted run resumes.
"""

from absl.flags import FLAGS

from regal_jax.studies import launch
from regal_jax.studies.regal import experiment
from regal_jax.studies.regal.experiment import Settings

METHODS = ("brkga", "regal_paper", "random_search", "depth_first", "breadth_first")
DEFAULTS = Settings(output_dir="results/regal_memory", methods=METHODS)


def main(settings, folder) -> None:
    print(experiment.table_1(settings, "peak_memory", folder()))


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)

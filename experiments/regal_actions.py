"""REGAL on subsets of its actions (table 3), and what actions it chooses (section 5.1, figure 7).

  python experiments/regal_actions.py --flagfile=experiments/flags/smoke/regal_actions.flags

Trains a policy for each of --subsets. With --policy (a file, or 'shipped') nothing is trained and
only figure 7 is made, from that policy. Results are rows of CSV files; an interrupted run resumes.
"""

from absl.flags import FLAGS

from regal_jax.studies import launch
from regal_jax.studies.regal import subsets
from regal_jax.studies.regal.subsets import Settings

DEFAULTS = Settings(output_dir="results/regal_actions", microbatches=(1,), seeds=1)


def main(settings, folder) -> None:
    subsets.report(settings, folder())


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)

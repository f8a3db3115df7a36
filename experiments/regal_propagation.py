"""REGAL's use of graph structure (section 5.2, figure 8): rounds of message passing, seed by seed.

  python experiments/regal_propagation.py --flagfile=experiments/flags/smoke/regal_propagation.flags

Trains a policy for every number of rounds T, weight of the baseline's loss and seed, and keeps the
best validation improvement of each run, which is that of searches with the training budget. An
interrupted sweep resumes, an interrupted run, too.
"""

from absl.flags import FLAGS

from regal_jax.studies import launch
from regal_jax.studies.regal import propagation
from regal_jax.studies.regal.propagation import Settings

DEFAULTS = Settings(output_dir="results/regal_propagation")


def main(settings, folder) -> None:
    output, runs = folder(), propagation.runs(settings)
    propagation.report(propagation.train(settings, runs, output), runs)


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)

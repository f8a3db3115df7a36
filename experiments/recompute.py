"""Ops that run again, to fit: ``recompute`` beside CP-SAT's proven optimum.

  python experiments/recompute.py --flagfile=experiments/flags/small/recompute.flags

Train steps of the zoo and layered graphs, each within several memory limits. Results are rows of a
CSV; an interrupted run resumes. Needs the extra ``solvers``.
"""

from absl.flags import FLAGS

from regal_jax.studies import launch, recompute
from regal_jax.studies.recompute import Settings

DEFAULTS = Settings(output_dir="results/recompute")


def main(settings, folder) -> None:
    print(recompute.page(recompute.run(settings, folder() / "results.csv")))


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)

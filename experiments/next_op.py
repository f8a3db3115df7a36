"""Orders of one device chosen op by op by weights of features (ours), which are evolved, against
their control.

  python experiments/next_op.py --flagfile=experiments/flags/smoke/next_op.flags

--policy=shipped trains nothing. Tests are layered graphs of other seeds, and real ones of families
that are neither trained nor validated on. Results are rows of a CSV; an interrupted run resumes, in
its training, too.
"""

from absl.flags import FLAGS

from regal_jax.studies import launch
from regal_jax.studies.topoformer import next_op
from regal_jax.studies.topoformer.next_op import Settings

DEFAULTS = Settings(output_dir="results/next_op")


def main(settings, folder) -> None:
    next_op.run(settings, folder())


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)

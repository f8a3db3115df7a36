"""REGAL's moves: train or load a policy of changes to the best schedule, compare it with controls.

  python experiments/regal_moves.py --flagfile=experiments/flags/smoke/regal_moves.flags

--dataset is as in regal_memory.py. Results are rows of a CSV; an interrupted run resumes.
"""

from absl.flags import FLAGS

from regal_jax.studies import flags, launch
from regal_jax.studies.regal import moves
from regal_jax.studies.regal.moves import Settings

DEFAULTS = Settings(output_dir="results/regal_moves")
flags.define(DEFAULTS, FLAGS)


def main(_) -> None:
    settings = flags.read(DEFAULTS, FLAGS)
    print(moves.table(settings, launch.folder(settings, FLAGS)))


if __name__ == "__main__":
    launch.run(main, FLAGS)

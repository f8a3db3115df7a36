"""Sequencing of job shops by a network (ours), trained by self-labelling, against its control.

  python experiments/sequencing_jssp.py --flagfile=experiments/flags/smoke/sequencing_jssp.flags

--policy=shipped trains nothing. Tests are uniform job shops (--settings) and the literature's
(--families), none of which are trained or validated on. Results are rows of a CSV; an interrupted
run resumes, in its training, too.
"""

from absl.flags import FLAGS

from regal_jax.studies import launch
from regal_jax.studies.one_shot import sequencing
from regal_jax.studies.one_shot.sequencing import Settings

DEFAULTS = Settings(output_dir="results/sequencing_jssp")


def main(settings, folder) -> None:
    sequencing.run(settings, folder())


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)

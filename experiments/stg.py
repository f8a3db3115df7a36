"""List heuristics and searches on the Standard Task Graph set, whose optima are known.

  python experiments/stg.py --flagfile=experiments/flags/small/stg.flags --data_dir=data/stg

Random task graphs on identical processors without communication, for least makespan (Tobita and
Kasahara 2002). --data_dir holds a file a set, for example stg50.jsonl.gz; ``studies.stg`` tells
what is in it. Results are rows of a CSV; an interrupted run resumes.
"""

from absl.flags import FLAGS

from regal_jax.studies import launch, stg
from regal_jax.studies.stg import Settings

DEFAULTS = Settings(output_dir="results/stg")


def main(settings, folder) -> None:
    stg.study(settings, folder())


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)

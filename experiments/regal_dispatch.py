"""REGAL's dispatcher: train or load its network and its control, compare them with searches.

  python experiments/regal_dispatch.py --flagfile=experiments/flags/smoke/regal_dispatch.flags

--policy=shipped trains nothing. --dataset is as in regal_memory.py. Results are rows of a CSV; an
interrupted run resumes.
"""

from absl.flags import FLAGS

from regal_jax.studies import launch
from regal_jax.studies.regal import dispatching
from regal_jax.studies.regal.dispatching import Settings

DEFAULTS = Settings(output_dir="results/regal_dispatch")


def main(settings, folder) -> None:
    print(dispatching.table(settings, folder()))


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)

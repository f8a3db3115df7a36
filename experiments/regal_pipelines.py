"""Do searches rediscover 1F1B and zero-bubble pipelines, told the graph and a memory cap alone?

  python experiments/regal_pipelines.py --flagfile=experiments/flags/smoke/regal_pipelines.flags

For p stages and m microbatches: the published schedules' makespan and peak memory, and what each
method reaches on p devices with as much memory as one of them takes.
"""

from absl.flags import FLAGS

from regal_jax.studies import launch
from regal_jax.studies.regal import pipeline_attempts
from regal_jax.studies.regal.pipeline_attempts import Settings

DEFAULTS = Settings(output_dir="results/regal_pipelines")


def main(settings, folder) -> None:
    pipeline_attempts.report(settings, folder() / "results.csv")


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)

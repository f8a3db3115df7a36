"""List heuristics and searches on the Standard Task Graph set, whose optima are known.

  python experiments/stg.py --flagfile=experiments/flags/small/stg.flags --data_dir=data/stg

Random task graphs on identical processors without communication, for least makespan (Tobita and
Kasahara 2002). --data_dir holds a file a set, for example stg50.jsonl.gz; ``stg.instances`` tells
what is in it. Results are rows of a CSV; an interrupted run resumes.
"""

from pathlib import Path

from absl.flags import FLAGS

from regal_jax.studies import launch
from regal_jax.studies.stg import instances, report, runs
from regal_jax.studies.stg.runs import Settings

DEFAULTS = Settings(output_dir="results/stg")


def main(settings, folder) -> None:
    output, data = folder(), Path(settings.data_dir)
    some = [
        instance
        for name in settings.sets
        for instance in instances.read_set(data, name)[: settings.max_graphs]
    ]
    rows = runs.run_all(some, runs.solvers(settings), output / "results.csv")
    print(report.report(some, rows))


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)

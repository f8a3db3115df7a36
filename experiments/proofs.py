"""Proven optima of peak memory: every graph of the model zoo, some seconds each.

  python experiments/proofs.py --flagfile=experiments/flags/small/proofs.flags

Prints how many schedules are proven optimal and the gaps of the others, then the graphs that are
still open, hardest first. Results are rows of a CSV; an interrupted run resumes. With --claims, a
list of schedule files, it says of each whether it is better than the best one known.
"""

from absl.flags import FLAGS

from regal_jax.reporting import results
from regal_jax.studies import launch
from regal_jax.studies.proofs import claims, report, runs
from regal_jax.studies.proofs.runs import Settings

DEFAULTS = Settings(output_dir="results/proofs")


def main(settings, folder) -> None:
    if settings.claims:
        known = results.read_results(settings.known)
        print("\n".join(claims.judged(settings.claims, known)))
        return
    output = folder()
    rows = runs.run(runs.corpora(settings), settings, output / "results.csv")
    print(report.proven(rows))
    print(report.still_open(rows))


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)

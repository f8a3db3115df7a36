"""What more evaluations bring: REGAL and BRKGA up to 50,000 (figures 5 and 6, section 4.4).

  python experiments/regal_evaluations.py --flagfile=experiments/flags/smoke/regal_evaluations.flags

The last setting is of XLA's own graphs, which are larger than those that policies are trained on.
"""

from absl.flags import FLAGS

from regal_jax.studies import launch
from regal_jax.studies.regal import limits_report
from regal_jax.studies.regal.limits_report import Settings

DEFAULTS = Settings(output_dir="results/regal_evaluations")


def main(settings, folder) -> None:
    output = folder()
    rows = limits_report.compare(settings, output)
    for setting in dict.fromkeys(row["setting"] for row in rows):
        limits_report.report(rows, setting, settings)


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)

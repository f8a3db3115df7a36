"""The tables of results in README.md and docs/results, from the rows in docs/results/*.csv.

python experiments/results_pages.py            # makes them anew
python experiments/results_pages.py --check    # says which differ, exit status 1
"""

from pathlib import Path

from absl.flags import FLAGS

from regal_jax.studies import flags, launch, results_pages
from regal_jax.studies.results_pages import Settings

DEFAULTS = Settings()
flags.define(DEFAULTS, FLAGS)


def main(_) -> None:
    settings = flags.read(DEFAULTS, FLAGS)
    folder = Path(settings.folder)
    if not settings.check:
        results_pages.write(folder)
    if faults := results_pages.faults(folder):
        raise SystemExit("\n".join(faults))


if __name__ == "__main__":
    launch.run(main, FLAGS)

"""The tables of results in README.md and docs/results, from the rows in docs/results/*.csv.

python experiments/results_pages.py            # makes them anew
python experiments/results_pages.py --check    # says which differ, exit status 1
"""

from pathlib import Path

from absl.flags import FLAGS

from regal_jax.studies import launch, results_pages
from regal_jax.studies.results_pages import Settings

DEFAULTS = Settings()


def main(settings, folder) -> None:
    root = Path(settings.folder)
    if not settings.check:
        results_pages.write(root)
    if faults := results_pages.faults(root):
        raise SystemExit("\n".join(faults))


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)

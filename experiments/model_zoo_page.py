"""The corpus of graphs as one HTML page: sizes, sources, headroom, and every graph in a table.

  python experiments/model_zoo_page.py --output=model_zoo.html

--card names the CSV that describes the corpus, a row a graph; by default the one of the package.
"""

from dataclasses import dataclass
from pathlib import Path

from absl.flags import FLAGS

import regal_jax as rj
from regal_jax.errors import OptionError
from regal_jax.graphs import files
from regal_jax.studies import flags, launch
from regal_jax.studies.zoo import card as zoo_card
from regal_jax.studies.zoo import page

NOTES = (
    "Computation graphs of real models, unique in topology, traced from public packages."
    " Only structure, sizes and durations are kept: no weights, no code."
    " Splits keep architectures together, whichever package they are from, so that test graphs are"
    " unseen ones."
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is on the page."""

    card: str | None = flags.option(None, "CSV with a row a graph; by default the package's.")
    output: str = flags.option("model_zoo.html", "HTML file to write.")
    title: str = flags.option("The regal_jax model zoo", "Heading of the page.")
    notes: str = flags.option(NOTES, "Text below the heading; blank lines separate paragraphs.")


DEFAULTS = Settings()


def main(settings, folder) -> None:
    shipped = Path(rj.__file__).parent / "datasets" / "zoo" / "model_zoo.csv"
    card = Path(settings.card or shipped)
    if not card.is_file():
        raise OptionError(f"{card}: no such file; name a card with --card=FILE.csv")
    files.check_writable(settings.output)
    rows = zoo_card.read_card(card)
    if not rows:
        raise OptionError(f"{card}: holds no graphs; make the card anew or name another by --card")
    page.write_page(rows, settings.output, title=settings.title, notes=settings.notes)
    print(f"wrote {settings.output}: {len(rows)} graphs")


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)

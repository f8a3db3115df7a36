"""The corpus of graphs as one HTML page: sizes, sources, headroom, and every graph in a table.

  python experiments/model_zoo_page.py --output=model_zoo.html

--card names the CSV that describes the corpus, a row a graph; by default the one of the package.
"""

from pathlib import Path

from absl import flags

import regal_jax as rj
from regal_jax.errors import OptionError
from regal_jax.graphs import files
from regal_jax.studies import launch
from regal_jax.studies.zoo import card as zoo_card
from regal_jax.studies.zoo import page

_CARD = flags.DEFINE_string("card", None, "CSV with a row a graph; by default the package's.")
_OUTPUT = flags.DEFINE_string("output", "model_zoo.html", "HTML file to write.")
_TITLE = flags.DEFINE_string("title", "The regal_jax model zoo", "Heading of the page.")
_NOTES = flags.DEFINE_string(
    "notes",
    "Computation graphs of real models, unique in topology, traced from public packages."
    " Only structure, sizes and durations are kept: no weights, no code."
    " Splits keep architecture families together, so that test graphs are unseen ones.",
    "Text below the heading; blank lines separate paragraphs.",
)


def main(_) -> None:
    shipped = Path(rj.__file__).parent / "datasets" / "zoo" / "model_zoo.csv"
    card = Path(_CARD.value or shipped)
    if not card.is_file():
        raise OptionError(f"{card}: no such file; name a card with --card=FILE.csv")
    files.check_writable(_OUTPUT.value)
    rows = zoo_card.read_card(card)
    if not rows:
        raise OptionError(f"{card}: holds no graphs; make the card anew or name another by --card")
    page.write_page(rows, _OUTPUT.value, title=_TITLE.value, notes=_NOTES.value)
    print(f"wrote {_OUTPUT.value}: {len(rows)} graphs")


if __name__ == "__main__":
    launch.run(main)

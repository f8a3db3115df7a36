"""Published numbers: every file says where its numbers stand, and cells are those of the papers."""

import csv
import math
from importlib import resources

import pytest

from regal_jax.studies import paper_numbers

FILES = sorted(
    file.name
    for file in resources.files("regal_jax.studies.paper_numbers").iterdir()
    if file.name.endswith(".csv")
)


@pytest.mark.parametrize("name", FILES)
def test_every_number_has_its_paper_table_and_section(name):
    text = (resources.files("regal_jax.studies.paper_numbers") / name).read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert tuple(rows[0]) == paper_numbers.COLUMNS
    assert all(row["paper"] and row["table"] and row["section"] for row in rows)
    assert all(math.isfinite(float(row["value"])) for row in rows)
    cells = [(row["setting"], row["method"], row["metric"]) for row in rows]
    assert len(set(cells)) == len(cells)


def test_cells_are_those_of_the_papers():
    regal = paper_numbers.values("regal_table_1", "improvement")
    assert (regal["tensorflow"]["regal"], regal["xla"]["regal"]) == (3.56, 3.74)
    cell = paper_numbers.numbers("topoformer_table_3")["500 nodes"]["gat beam"]["gap"]
    assert cell == paper_numbers.Number(4.22, 0.60)
    cell = paper_numbers.numbers("gflownet_table_2")["random graphs"]["ppo"]["ged"]
    assert cell == paper_numbers.Number(69.54)

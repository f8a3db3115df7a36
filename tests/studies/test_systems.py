"""The README's table of systems: its numbers are those of the rows."""

from pathlib import Path

import numpy as np
import pytest

from regal_jax.reporting import results
from regal_jax.studies import systems
from regal_jax.studies.comparison.paired import paired_table

FOLDER = Path(__file__).parents[2] / "docs" / "results"


@pytest.fixture(scope="module")
def table():
    return systems.table(lambda name: results.read_results(FOLDER / f"{name}.csv"))


def test_every_system_has_a_line_and_a_page(table):
    lines = table.splitlines()[2:]
    assert len(lines) == 9
    for name in ("proofs", "regal", "topoformer", "one_shot", "sequencing", "gflownet"):
        assert f"(docs/results/{name}.md)" in table
        assert (FOLDER / f"{name}.md").is_file()


def test_the_range_over_sets_by_hand():
    def rows(setting, ours, theirs):
        common = {"setting": setting, "metric": "cost", "seed": 0, "budget": "256"}
        labels = {"mine S(256)": ours, "control S(256)": theirs, "other S(256)": 1.0}
        return [common | {"graph": "g", "method": m, "value": v} for m, v in labels.items()]

    some = rows("first", 100.0, 105.0) + rows("second", 100.0, 95.0)
    low, high = 100 * np.log(0.95), 100 * np.log(1.05)
    lines = paired_table(some, "mine")
    text = systems._range(lines, "shorter", "control", "256")
    assert text.startswith(
        f"{low:.1f} to {high:.1f} % shorter than its control `control` on 2 sets"
    )

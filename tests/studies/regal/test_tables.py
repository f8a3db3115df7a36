"""Table 1 of REGAL: its lines, graphs with headroom, and what is at the bound."""

import pytest

from regal_jax.errors import RegalError
from regal_jax.studies.regal import tables

COSTS = {"brkga 5000": {"a": 110.0, "b": 50.0}, "regal_paper 5000": {"a": 100.0, "b": 50.0}}


def rows_of(costs, bound=50.0):
    found = []
    for method, by_graph in costs.items():
        for graph, cost in by_graph.items():
            common = {"setting": "as traced", "graph": graph, "method": method, "seed": 0}
            found += [common | {"metric": "cost", "value": cost}]
            found += [common | {"metric": "lower_bound", "value": bound}]
    return found


def test_lines_and_papers_numbers():
    (everyone, lines), (some, with_headroom) = tables.table_1(rows_of(COSTS))
    assert everyone == ("as traced, all 2 graphs, 50.0% at their lower bound by brkga 5000 already")
    reference, regal = lines
    assert reference["improvement %"].startswith("0.00")
    assert regal["improvement %"].startswith(f"{1000 / 110 / 2:.2f}")
    assert (regal["paper"], regal["geometric"], regal["win or tie %"]) == ("3.56", "0.00", "100.0")
    assert float(reference["geometric"]) == pytest.approx(100 * (1.1**0.5 - 1), abs=0.01)
    assert some == "as traced, 1 graphs with at least 2% headroom"
    assert with_headroom[1]["improvement %"].startswith(f"{1000 / 110:.2f}")


def test_without_headroom_there_is_one_table():
    even = {"brkga 5000": {"a": 100.0}, "regal_paper 5000": {"a": 101.0}}
    ((title, _),) = tables.table_1(rows_of(even))
    assert title.startswith("as traced, all 1 graphs, 0.0% at")


def test_rows_without_brkga_are_refused():
    with pytest.raises(RegalError, match="no rows of brkga"):
        list(tables.table_1(rows_of({"regal_paper 5000": {"a": 1.0}})))
    assert tables.reference_of(rows_of({"brkga 20": {"a": 1.0}, "brkga 300": {"a": 1.0}})) == (
        "brkga 300"
    )

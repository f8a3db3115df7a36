"""Curves over evaluation limits, from rows written down by hand."""

import pytest

from regal_jax.studies.comparison.searches import Run
from regal_jax.studies.regal import evaluation_limits, limits_report

REFERENCE = 300
COSTS = {
    ("g", "brkga"): {100: 120.0, 200: 110.0, 300: 100.0},
    ("g", "regal_paper"): {100: 110.0, 200: 100.0, 300: 80.0},
    ("h", "brkga"): {100: 60.0, 200: 50.0, 300: 50.0},
    ("h", "regal_paper"): {100: 60.0, 200: 60.0, 300: 60.0},
}
"""Of two graphs: REGAL has BRKGA's 100 after 200 evaluations, and its 50 never."""
ROWS = [
    {
        "setting": "as traced",
        "graph": graph,
        "method": method,
        "seed": 0,
        "metric": f"cost@{limit}",
        "value": cost,
    }
    for (graph, method), costs in COSTS.items()
    for limit, cost in costs.items()
]


def test_one_search_a_method_with_all_limits_within_its_budget():
    brkga, regal = evaluation_limits.long_runs(["brkga", "regal_paper"], 20_000)
    limits = (*range(100, 5001, 100), 10_000, 20_000)
    assert brkga == Run("brkga", "brkga", 20_000, limits)
    assert regal.limits == limits
    assert evaluation_limits.long_runs(["brkga"], 250)[0].limits == (100, 200)


def test_improvements_are_over_brkga_at_the_reference():
    found = evaluation_limits.improvements(ROWS, "as traced", 200, REFERENCE)
    assert {m: {g: list(v) for g, v in by.items()} for m, by in found.items()} == {
        "brkga": {"g": [-10.0], "h": [0.0]},
        "regal_paper": {"g": [0.0], "h": [-20.0]},
    }
    assert evaluation_limits.improvements(ROWS, "4 microbatches", 200, REFERENCE) == {}


def test_searches_that_have_not_run_with_every_seed_are_left_out():
    partial = [*ROWS, ROWS[0] | {"seed": 1, "metric": f"cost@{REFERENCE}"}]
    found = evaluation_limits.improvements(partial, "as traced", 200, REFERENCE)
    assert set(found["regal_paper"]) == {"h"}


def test_a_curve_has_a_point_a_method_and_limit():
    points = evaluation_limits.curve(ROWS, "as traced", [100, 300], REFERENCE)
    means = {(p["method"], p["evaluations"]): p["mean"] for p in points}
    assert means == pytest.approx(
        {
            ("brkga", 100): -20.0,
            ("regal_paper", 100): -15.0,
            ("brkga", 300): 0.0,
            ("regal_paper", 300): 0.0,
        }
    )
    many = [row | {"graph": f"{row['graph']}{i}"} for row in ROWS for i in range(5)]
    points = evaluation_limits.curve(many, "as traced", [100, 300], REFERENCE)
    assert len(points) == 4
    assert all(p["low"] <= p["mean"] <= p["high"] for p in points)


def test_fewer_evaluations_are_those_until_the_references_value():
    assert evaluation_limits.fewer_evaluations(ROWS, "as traced", "regal_paper", REFERENCE) == (
        pytest.approx(100 / 3),
        50.0,
    )
    assert evaluation_limits.fewer_evaluations(ROWS, "as traced", "gas", REFERENCE) == (0.0, 0.0)


def test_the_page_has_a_line_a_method_and_a_column_a_limit_that_was_reached():
    rows = [
        row | {"metric": f"cost@{limit}"}
        for row in ROWS
        for own, limit in (("cost@100", 1000), ("cost@300", 5000))
        if row["metric"] == own
    ]
    caption, title, table = limits_report.page(rows).split("\n\n")
    assert caption.startswith("Improvement over BRKGA with 5,000 evaluations")
    assert title == "As traced, 2 graphs:"
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    assert lines[0] == ["method", "1,000", "5,000"]
    assert lines[2:] == [
        ["`brkga`", "-20.0 (n = 2)", "0.0 (n = 2)"],
        ["`regal_paper`", "-15.0 (n = 2)", "0.0 (n = 2)"],
    ]

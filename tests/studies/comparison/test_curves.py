"""Costs by seconds of programs that race: rows of what was found when, and their table."""

import pytest

from regal_jax.studies.comparison import curves


def test_costs_by_seconds_are_the_least_found_by_then():
    points = [(0.05, 12.0), (0.2, 10.0), (0.25, 11.0), (2.0, 8.0), (4.0, 7.0)]
    found = curves.metrics(points, seconds=3.0)
    assert found == {"cost@0.1": 12.0, "cost@0.3": 10.0, "cost@1": 10.0, "cost@3": 8.0}


def test_a_program_without_a_schedule_by_then_has_no_row():
    assert curves.metrics([(0.5, 3.0)], seconds=1.0) == {"cost@1": 3.0}
    assert curves.metrics([(1.5, 3.0)], seconds=1.0) == {}


def rows_of(setting: str, program: str, costs: dict[str, dict[str, float]]) -> list[dict]:
    """Rows of a program: {graph: {metric: cost}}."""
    common = {"setting": setting, "method": program, "seed": 0, "cores": 1}
    return [
        common | {"graph": graph, "metric": metric, "value": value}
        for graph, found in costs.items()
        for metric, value in (found | {curves.LAST_METRIC: 1.0}).items()
    ]


def test_the_table():
    ours = {"a": {"cost@1": 110.0, "cost@3": 100.0}, "b": {"cost@1": 50.0, "cost@3": 50.0}}
    theirs = {"a": {"cost@3": 130.0}, "b": {"cost@1": 60.0, "cost@3": 50.4}}
    rows = rows_of("makespan", "ours", ours) + rows_of("makespan", "theirs", theirs)
    rows += rows_of("peak", "ours", {"a": {"cost@1": 5.0, "cost@3": 5.0}})
    caption, table = curves.page(rows).split("\n\n", 1)
    assert "within 1 %" in caption
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    assert cells[0] == ["setting", "program", "1 s", "3 s", "within 1 %"]
    assert cells[2:] == [
        ["makespan (2)", "`ours`", "5.0 (n = 2)", "0.0 (n = 2)", "2"],
        ["makespan (2)", "`theirs`", "20.0 (1)", "15.4 (n = 2)", "1"],
        ["peak (1)", "`ours`", "0.0 (n = 1)", "0.0 (n = 1)", "1"],
    ]


def test_the_sentence_ranks_programs_in_the_end():
    theirs = rows_of("peak", "theirs", {"a": {"cost@1": 100.0, "cost@3": 20.0}})
    ours = rows_of("peak", "ours", {"a": {"cost@1": 10.0, "cost@3": 10.0}})
    other = rows_of("makespan", "ours", {"a": {"cost@1": 3.0, "cost@3": 3.0}})
    text = curves.sentence([*theirs, *ours, *other], {"peak": "memory", "makespan": "time"})
    assert "after 3 s on a core, 1 graph," in text
    assert text.endswith(": memory ours 0.0, theirs 100.0; time ours 0.0.\n")


@pytest.mark.parametrize("limit", [10.0, 100.0])
def test_only_seconds_within_the_limit_are_columns(limit):
    found = curves.metrics([(0.01, 1.0)], seconds=limit)
    assert max(float(name.split("@")[1]) for name in found) == limit

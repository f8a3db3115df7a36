"""Tables and units as a person reads them."""

import io

import pytest

from regal_jax.reporting import tables
from tests.reporting.cases import hand_graph, hand_schedule, one_device_schedule

ROWS = [{"graph": "a|b", "peak": 12.5}, {"graph": "long name", "peak": 3, "note": "x"}]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1536, "1.50 KiB"),
        (10 * 1024, "10.0 KiB"),
        (999.96 * 1024, "1000 KiB"),
        (1023.9 * 1024, "1.00 MiB"),
        (2.5 * 1024**3, "2.50 GiB"),
        (2**53, "8192 TiB"),
        (-1536, "-1.50 KiB"),
    ],
)
def test_human_bytes(value, text):
    assert tables.human_bytes(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 us"),
        (0.25, "0.25 us"),
        (1, "1.00 us"),
        (12.34, "12.3 us"),
        (999.9, "1.00 ms"),
        (1500, "1.50 ms"),
        (9.996e6, "10.0 s"),
        (1.2e8, "2.00 min"),
        (7.2e9, "2.00 h"),
    ],
)
def test_human_time(value, text):
    assert tables.human_time_us(value) == text


def test_text_table():
    assert tables.text_table(ROWS) == (
        "graph      peak  note\n---------  ----  ----\na|b        12.5\nlong name     3  x"
    )
    assert tables.text_table(ROWS, ["peak"]) == "peak\n----\n12.5\n   3"
    assert tables.text_table([], ["a"]) == "a\n-"


def test_markdown_table():
    assert tables.markdown_table(ROWS) == (
        "| graph     | peak | note |\n"
        "| --------- | ---: | ---- |\n"
        "| a\\|b      | 12.5 |      |\n"
        "| long name |    3 | x    |"
    )


def test_printed_plain_unless_on_a_terminal():
    plain, terminal = io.StringIO(), io.StringIO()
    terminal.isatty = lambda: True
    tables.print_table(ROWS, title="Title", file=plain)
    tables.print_table([{"graph": "[red]"}], title="[bold]", file=terminal)
    assert plain.getvalue() == f"Title\n{tables.text_table(ROWS)}\n"
    assert "[red]" in terminal.getvalue()
    assert "[bold]" in terminal.getvalue()


def test_summary_of_one_schedule():
    rows = tables.schedule_summary(hand_graph(), hand_schedule())
    assert rows == [
        {"": "device 0", "needs": "153 B"},
        {"": "device 1", "needs": "48 B"},
        {"": "fullest device", "needs": "153 B"},
        {"": "all devices", "needs": "201 B"},
        {"": "makespan", "needs": "7.00 us"},
    ]


def test_summary_against_a_baseline():
    rows = tables.schedule_summary(
        hand_graph(), hand_schedule(), one_device_schedule(), lower_bound=150
    )
    assert rows[0]["before"] == rows[2]["before"] == "156 B"
    assert "before" not in rows[1]
    assert rows[2]["saved"] == "3 B"
    assert rows[2]["saved %"] == "1.9 %"
    assert (rows[2]["lower bound"], rows[2]["gap"]) == ("150 B", "2.0 %")
    assert (rows[4]["saved"], rows[4]["saved %"]) == ("3.00 us", "30.0 %")
    assert all("gap" not in row for row in rows[3:])


def test_summary_bounds_the_objective():
    schedule = hand_schedule("makespan").replace(lower_bound=7.0)
    assert tables.schedule_summary(hand_graph(), schedule)[-1]["gap"] == "0.0 %"

"""Tables and units as a person reads them."""

import io

import pytest

from regal_jax.reporting import tables

ROWS = [{"graph": "a|b", "peak": 12.5}, {"graph": "long name", "peak": 3, "note": "x"}]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1536, "1.50 KiB"),
        (9.7 * 1024, "9.70 KiB"),
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


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1.0234, "2.3 % more FLOPs"), (0.9766, "2.3 % fewer FLOPs"), (0.9999, "0.0 % more FLOPs")],
)
def test_human_flops(ratio, text):
    assert tables.human_flops(ratio) == text


def test_numbers_of_things():
    assert [tables.number_of(count, "seed") for count in (0, 1, 2)] == [
        *("0 seeds", "1 seed", "2 seeds")
    ]


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

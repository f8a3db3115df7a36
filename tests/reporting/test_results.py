"""Results files: round trips, torn writes, resuming, and rejections that name file and line."""

import os

import pytest

from regal_jax.errors import RegalError
from regal_jax.reporting import results


def row(graph="g", method="m", seed=0, metric="peak", value=1, **extra):
    return {
        "graph": graph, "method": method, "seed": seed, "metric": metric, "value": value, **extra
    }  # fmt: skip


ROWS = [row(value=2**53 - 1), row('a,"b"', "x y", 3, value=0.1), row(value=float("inf"))]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.csv"


def test_round_trip(path):
    results.write_results(path, ROWS)
    assert results.read_results(path) == ROWS
    assert path.read_text().startswith("graph,method,seed,metric,value\n")
    assert type(results.read_results(path)[0]["value"]) is int
    assert os.listdir(path.parent) == [path.name]


def test_appending_makes_the_file_and_adds_to_it(path):
    results.append_results(path, [row(split="test")], ["split"])
    results.append_results(path, [row(seed=1, split="test")], ["split"])
    assert results.read_results(path) == [row(split="test"), row(seed=1, split="test")]


def test_no_rows_still_have_a_header(path):
    results.append_results(path, [])
    assert path.read_text() == "graph,method,seed,metric,value\n"
    assert results.read_results(path) == []


@pytest.mark.parametrize("cut", [1, 5])
def test_a_torn_last_line_is_dropped_and_replaced(path, cut):
    results.write_results(path, [row(), row("gräf", seed=1)])
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.warns(UserWarning, match="line 3: cut off"):
        assert results.read_results(path) == [row()]
    results.append_results(path, [row(seed=2)])
    assert results.read_results(path) == [row(), row(seed=2)]


def test_a_cut_inside_a_character_is_a_torn_line(path):
    results.write_results(path, [row(), row("ä")])
    path.write_bytes(path.read_bytes().split("ä".encode())[0] + b"\xc3")
    with pytest.warns(UserWarning, match="cut off"):
        assert results.read_results(path) == [row()]


@pytest.mark.parametrize("kept", [0, 10])
def test_a_torn_header_counts_as_no_file(path, kept):
    path.write_text("graph,method,seed,metric,value"[:kept])
    results.append_results(path, [row()])
    assert results.read_results(path) == [row()]


def test_every_cut_leaves_a_file_that_resumes(path):
    results.write_results(path, ROWS)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        results.append_results(path, ROWS[:1])
        found = results.read_results(path)
        assert found[:-1] == ROWS[: len(found) - 1]
        assert found[-1] == ROWS[0]


def test_missing_file(path):
    assert results.read_results(path, missing_ok=True) == []
    with pytest.raises(RegalError, match="no such file"):
        results.read_results(path)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("g,m,0,peak", "4 fields for 5"),
        ("", "0 fields for 5"),
        ("g,m,0.5,peak,1", "seed is not an integer"),
        ("g,m,0,peak,fast", "value is not a number"),
        ("g,m,0,peak,nan", "value is not a number"),
        ('g,m,0,peak,"1', "not CSV"),
    ],
)
def test_malformed_lines_are_named(path, line, reason):
    results.write_results(path, [row()])
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(RegalError, match=rf"results.csv, line 3: .*{reason}") as error:
        results.read_results(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("header", ["graph,seed", "", "graph,method,seed,metric,value,x,x"])
def test_malformed_header(path, header):
    path.write_text(header + "\n")
    with pytest.raises(RegalError, match="line 1: the header"):
        results.read_results(path)
    with pytest.raises(RegalError, match="line 1: the header"):
        results.append_results(path, [row()])


def test_other_columns_are_not_mixed(path):
    results.write_results(path, [row(split="test")], ["split"])
    with pytest.raises(RegalError, match="line 1: has the columns"):
        results.append_results(path, [row()])


@pytest.mark.parametrize(
    "bad", [row("two\nlines"), row(value="much"), row(value=float("nan")), row(x=1), {"graph": "g"}]
)
def test_bad_rows_are_not_written(path, bad):
    with pytest.raises(RegalError, match="results: "):
        results.append_results(path, [row(), bad])
    assert not path.exists()


def test_unwritable_places(path):
    for write in (results.write_results, results.append_results):
        with pytest.raises(RegalError, match="can't write there"):
            write(path / "below" / "r.csv", ROWS)


def test_windows_line_ends_are_read(path):
    results.write_results(path, [row()])
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert results.read_results(path) == [row()]


def test_done_keys():
    rows = [row(metric="peak"), row(metric="seconds"), row(seed=1), row("h", split="test")]
    assert results.done_keys(rows) == {("g", "m", 0), ("g", "m", 1), ("h", "m", 0)}
    assert results.done_keys(rows, ["peak", "seconds"]) == {("g", "m", 0)}
    assert results.done_keys(rows, columns=["graph"]) == {("g",), ("h",)}

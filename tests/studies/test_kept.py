"""Results that are kept by key: made once, cut-off ones again, old files refused."""

import pytest

from regal_jax.errors import RegalError
from regal_jax.reporting import results
from regal_jax.studies.kept import KEY, KeptRows

COLUMNS = (KEY, "ops")


def rows(value):
    common = {"graph": "g", "method": "m", "seed": 0, "ops": 3}
    return [common | {"metric": metric, "value": value} for metric in ("cost", "bound")]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.csv"


def open_file(path):
    return KeptRows(path, "bound", COLUMNS)


def test_rows_are_made_once_and_read_as_they_were_returned(path):
    first = open_file(path).rows("k", lambda: rows(4674))
    assert [row["value"] for row in first] == [4674, 4674]
    assert open_file(path).rows("k", pytest.fail) == first
    assert results.read_results(path) == first


def test_rows_of_two_keys_stand_side_by_side(path):
    kept = open_file(path)
    kept.add("k", rows(4674))
    assert "k" in kept
    assert "other" not in kept
    kept.add("other", rows(5357))
    assert [row["value"] for row in open_file(path)["k"]] == [4674, 4674]
    assert [row["value"] for row in open_file(path)["other"]] == [5357, 5357]


def test_rows_that_were_cut_off_are_made_again_and_leave_nothing_behind(path):
    open_file(path).add("k", rows(1))
    cut = [row | {KEY: "torn"} for row in rows(2)[:1]]
    results.append_results(path, cut, COLUMNS)
    kept = open_file(path)
    assert "torn" not in kept
    kept.add("torn", rows(3))
    assert [row["value"] for row in results.read_results(path)] == [1, 1, 3, 3]


@pytest.mark.parametrize("some", [[], rows(1)])
def test_a_file_without_keys_is_one_clear_error(path, some):
    results.write_results(path, some, ["ops"])
    with pytest.raises(RegalError, match=r"results\.csv: has no column 'key'.*move the file away"):
        open_file(path)

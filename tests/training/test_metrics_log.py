"""metrics.csv: its rows, and what a resumed run leaves of them."""

import csv

import pytest

from regal_jax.training.metrics_log import MetricsLog


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def log(tmp_path):
    """Four rows; only the second has a loss."""
    log = MetricsLog(tmp_path / "metrics.csv", ("cost", "loss"))
    log.start_at(0)
    for step in range(1, 5):
        log.write(step, {"cost": step / 8, **({"loss": 0.5} if step == 2 else {})})
    return log


def test_a_row_a_step(log):
    found = rows(log.path)
    assert log.path.read_text().splitlines()[0] == "step,seconds,cost,loss"
    assert [row["step"] for row in found] == ["1", "2", "3", "4"]
    assert [row["cost"] for row in found] == ["0.125", "0.25", "0.375", "0.5"]
    assert [row["loss"] for row in found] == ["", "0.5", "", ""]
    seconds = [float(row["seconds"]) for row in found]
    assert seconds == sorted(seconds)
    assert seconds[0] >= 0


def test_rows_after_the_resumed_step_are_cut_off(log):
    before = rows(log.path)
    again = MetricsLog(log.path, ("cost", "loss"))
    again.start_at(2)
    assert rows(log.path) == before[:2]
    again.write(3, {"cost": 9.0})
    assert [(row["step"], row["cost"]) for row in rows(log.path)[2:]] == [("3", "9.0")]


def test_a_run_from_the_start_begins_a_new_file(log):
    log.start_at(0)
    assert rows(log.path) == []
    assert log.path.read_text().strip() == "step,seconds,cost,loss"


def test_a_resumed_run_without_a_file(tmp_path):
    log = MetricsLog(tmp_path / "new.csv", ("cost",))
    log.start_at(7)
    log.write(8, {"cost": 1.0})
    assert [row["step"] for row in rows(log.path)] == ["8"]


def test_a_row_that_was_cut_short_is_no_trouble(log):
    """A run that was killed while it wrote."""
    with log.path.open("a") as file:
        file.write("5,0.1")
    log.start_at(4)
    assert [row["step"] for row in rows(log.path)] == ["1", "2", "3", "4"]


def test_an_unknown_metric_is_an_error(log):
    with pytest.raises(ValueError, match="reward"):
        log.write(5, {"reward": 1.0})

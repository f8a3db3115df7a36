"""Workers that take tasks when they are free, and the table of what they save."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.studies.comparison import workers


def test_workers_take_the_next_task_when_they_are_free():
    assert workers.wall([3.0, 1.0, 1.0, 1.0], workers=2, start=0.0) == 3.0
    assert workers.wall([1.0, 1.0, 1.0, 3.0], workers=2, start=0.5) == 4.5
    assert workers.wall([2.0], workers=8, start=1.0) == 3.0


@given(st.lists(st.floats(0.01, 100.0), min_size=1), st.integers(1, 70), st.floats(0.0, 9.0))
def test_the_last_ends_between_the_bounds_of_list_scheduling(seconds, count, start):
    least = max(sum(seconds) / count, max(seconds)) + start
    most = sum(seconds) / count + max(seconds) + start
    assert least - 1e-6 <= workers.wall(seconds, count, start) <= most + 1e-6


def test_one_worker_takes_the_sum():
    assert workers.wall([1.0, 2.0, 4.0], 1, 0.0) == pytest.approx(7.0)


def test_the_table():
    common = {"graph": "9 searches", "seed": 0, "tasks": "9", "mean_seconds": "1.5", "start": "4"}
    rows = [common | {"method": "measured", "workers": "2", "value": 1.9}]
    cells = [cell.strip() for cell in workers.page(rows).splitlines()[2].split("|")[1:-1]]
    assert cells == ["9 searches, measured", "9", "1.50", "4.0", "2", "1.90", "0.95"]

"""Pipelines: what published schedules take, and whether a search has rediscovered one."""

import pytest

from regal_jax import api
from regal_jax.studies.regal import pipelines
from regal_jax.studies.regal.pipelines import Published

KNOWN = {"gpipe": Published(14.0, 2400), "1f1b": Published(14.0, 2200), "zb": Published(13.0, 2300)}


def test_published_schedules_take_what_their_papers_say():
    """1F1B is as fast as GPipe with less memory; zero bubble is faster."""
    known = pipelines.published(4, 8)
    ideal, fill = 3 * 8, 3 * 2
    assert known["gpipe"].makespan == known["1f1b"].makespan == ideal + fill
    assert known["1f1b"].peak_memory < known["gpipe"].peak_memory
    assert known["zb-h1"].makespan < known["1f1b"].makespan
    assert known["zb-h1"].peak_memory == known["1f1b"].peak_memory


@pytest.mark.parametrize(
    ("makespan", "peak", "capacity", "words"),
    [
        (12.0, 2201, 2200, "does not fit"),
        (15.0, 2200, 2200, "slower than all"),
        (14.0, 2200, 2200, "as fast as 1f1b"),
        (13.0, 2200, 2200, "faster than 1f1b"),
        (13.5, 2300, 2300, "as fast as 1f1b"),
        (12.0, 2300, 2400, "faster than gpipe, 1f1b, zb"),
    ],
)
def test_verdicts(makespan, peak, capacity, words):
    assert pipelines.verdict(makespan, peak, KNOWN, capacity) == words


def test_an_answer_names_who_reached_a_schedule():
    verdicts = {"etf": ["slower than all"], "auto": ["slower than all", "as fast as 1f1b, zb"]}
    assert pipelines.answer(["etf", "auto"], verdicts, "zb") == "zb is reached by auto"
    assert pipelines.answer(["etf"], verdicts, "zb") == "zb is reached by no method"


@pytest.mark.parametrize("cap", ["1f1b", "zb-h2"])
def test_auto_rediscovers_zero_bubble_within_the_same_memory(cap):
    known = pipelines.published(2, 4)
    capacity = known[cap].peak_memory
    options = pipelines.options(2, capacity, "auto", evaluations=5000, seed=0)
    found = api.optimize(pipelines.training_step(2, 4), options)
    peak = max(found.peak_memory)
    assert "zb-h1" in pipelines.verdict(found.makespan, peak, known, capacity)

"""Progress without a terminal: lines now and then, and silence where it is asked for."""

import time
import warnings

import pytest

from regal_jax.reporting import progress


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.02)


def shown(capsys):
    deadline = time.monotonic() + 20
    text = ""
    while "\n" not in text and time.monotonic() < deadline:
        time.sleep(0.01)
        text += capsys.readouterr().err
    return text.splitlines()[0]


def test_a_long_step_shows_life(capsys):
    with progress.bar("training", 4_000):
        assert shown(capsys) == "training: 0 of 4,000, 0 s"


def test_lines_tell_how_far_it_is(capsys):
    with progress.search_progress("auto", 4_000) as update:
        update(1_500, 2_048.0)
        capsys.readouterr()
        assert shown(capsys) == "auto: 1,500 of 4,000, best 2,048, 0 s"
    with progress.search_progress("auto", None) as update:
        update(7, 1.0)
        capsys.readouterr()
        assert shown(capsys) == "auto: 7, best 1, 0 s"


def test_nothing_is_told_after_the_end_or_quietly(capsys):
    with progress.bar("training", 10):
        pass
    with progress.bar("training", 10, quiet=True) as update:
        update(3)
        time.sleep(0.1)
    time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_short_runs_are_silent(capsys, monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 60.0)
    with progress.bar("training", 10) as update:
        update(10)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("quiet", [False, True])
def test_warnings(capsys, quiet):
    with progress.warnings_in_one_line("regal-jax", quiet=quiet):
        warnings.warn("two\nlines", stacklevel=1)
    expected = "" if quiet else "regal-jax: warning: two lines\n"
    assert capsys.readouterr().err == expected

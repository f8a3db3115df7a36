"""Pipelines under memory caps: what is run, kept and printed."""

import pytest

from regal_jax import api
from regal_jax.errors import OptionError
from regal_jax.studies.regal import pipeline_attempts
from regal_jax.studies.regal.pipeline_attempts import Settings

SETTINGS = Settings(stages=(2,), microbatches=(4,), caps=("1f1b",), methods=("etf", "cp_sat"))


def test_attempts_are_run_once_and_what_cannot_run_is_left_out(tmp_path, monkeypatch, capsys):
    asked = []
    known = api.optimize

    def attempt(graph, options):
        asked.append(options.method)
        if options.method == "cp_sat":
            raise OptionError("no solver")
        return known(graph, options)

    monkeypatch.setattr(api, "optimize", attempt)
    for _ in range(2):
        pipeline_attempts.report(SETTINGS, tmp_path / "results.csv")
    assert asked == ["etf", "cp_sat", "cp_sat"]
    first, second = capsys.readouterr().out.split("cp_sat is left out: no solver\n")[1:]
    assert first == second
    assert "2 stages, 4 microbatches" in first
    assert "zb-h1 is reached by" in first


def test_caps_are_published_schedules(tmp_path):
    settings = Settings(caps=("1f1b", "none"))
    with pytest.raises(OptionError, match="caps: none: not of gpipe, 1f1b"):
        pipeline_attempts.report(settings, tmp_path / "results.csv")

"""The study of programs on accelerators, by a TPU's compiler."""

import pytest

from regal_jax.errors import OptionError
from regal_jax.reporting import results
from regal_jax.studies.compiler import device_runs, search_costs
from tests.compiler.accelerators.targets import compiler_for
from tests.experiments.test_launchers import EXPERIMENTS, launch


def test_xla_memory_accelerators_smoke(tmp_path):
    compiler_for("v5e")
    flags = EXPERIMENTS / "flags" / "smoke" / "xla_memory_accelerators.flags"
    arguments = (f"--flagfile={flags}", f"--output_dir={tmp_path}")
    output = launch("xla_memory.py", *arguments)
    assert "Over XLA's own choice, compiled for v5e" in output
    rows = results.read_results(tmp_path / "results.csv")
    ratios = {row["method"]: float(row["value"]) for row in rows if row["metric"] == "ratio"}
    assert ratios["regal_jax"] <= ratios["xla_default"] == 1
    assert launch("xla_memory.py", *arguments) == output
    assert results.read_results(tmp_path / "results.csv") == rows


def test_search_costs_smoke(tmp_path):
    compiler_for("v5e")
    flags = EXPERIMENTS / "flags" / "smoke" / "search_costs.flags"
    arguments = (f"--flagfile={flags}", f"--output_dir={tmp_path}")
    output = launch("search_costs.py", *arguments)
    rows = results.read_results(tmp_path / "results.csv")
    for program in search_costs.PROGRAMS:
        of = {row["metric"]: row["value"] for row in rows if row["method"] == program}
        assert of["peak_bytes"] > of["temp_bytes"]
        assert 0 < of["round_seconds"] < of["seconds"]
        assert of["rounds"] >= int(rows[0]["ops"])
    assert launch("search_costs.py", *arguments) == output
    assert results.read_results(tmp_path / "results.csv") == rows


def test_decisions_are_made_without_the_device(tmp_path):
    compiler_for("v5e")
    arguments = (
        *("--accelerator=v5e", "--programs=mmoe/training", "--top_k=1"),
        *(f"--orders={tmp_path / 'orders'}", f"--output_dir={tmp_path}"),
    )
    first, again = launch("device_runs.py", *arguments), launch("device_runs.py", *arguments)
    assert first.startswith("mmoe/training: ")
    assert "decided before" in again
    assert len(list((tmp_path / "orders").iterdir())) == 1
    rows = results.read_results(tmp_path / "decided.csv")
    assert [(row["method"], row["metric"]) for row in rows] == [
        (method, metric)
        for method in ("xla_default", "regal_jax")
        for metric in ("expected_bytes", "expected_seconds")
    ]
    assert float(rows[2]["value"]) <= float(rows[0]["value"])
    assert not (tmp_path / "results.csv").exists()


def test_decisions_that_nobody_keeps_are_not_made(tmp_path):
    with pytest.raises(OptionError, match="without a folder"):
        next(device_runs.decide(device_runs.Settings(accelerator="v5e"), tmp_path))

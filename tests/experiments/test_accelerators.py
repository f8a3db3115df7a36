"""The study of programs on accelerators, by a TPU's compiler."""

from regal_jax.reporting import results
from regal_jax.studies.compiler import search_costs
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

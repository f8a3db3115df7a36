"""The study of memory budgets, on CPUs."""

from regal_jax.reporting import results
from tests.experiments.test_launchers import EXPERIMENTS, launch


def test_memory_budget_smoke(tmp_path):
    flags = EXPERIMENTS / "flags" / "smoke" / "memory_budget.flags"
    arguments = (f"--flagfile={flags}", f"--output_dir={tmp_path}")
    output = launch("memory_budget.py", *arguments)
    assert "Against policies" in output
    rows = results.read_results(tmp_path / "results.csv")
    of = {(row["method"], row["metric"], row["point"]): row["value"] for row in rows}
    plain = float(of["xla_default", "total_bytes", ""])
    fitted = float(of["regal_jax 0.4", "total_bytes", ""])
    assert fitted < plain
    assert float(of["rj.jit 0.4", "total_bytes", ""]) < fitted
    assert float(of["run", "difference", ""]) < 1e-3
    assert launch("memory_budget.py", *arguments) == output
    assert results.read_results(tmp_path / "results.csv") == rows

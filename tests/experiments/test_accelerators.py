"""The study of programs on accelerators, by a TPU's compiler."""

from regal_jax.reporting import results
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

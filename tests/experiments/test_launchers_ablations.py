"""The launchers of REGAL's ablations: the whole path, and that an interrupted run resumes."""

import json

from regal_jax.search.evolution.brkga import BRKGAConfig
from tests.experiments.test_launchers import EXPERIMENTS, launch

SMOKE = EXPERIMENTS / "flags" / "smoke"


def launch_twice(script, folder, *arguments):
    """What a launcher prints; a second run must print and keep the same."""
    command = (script, *arguments, f"--output_dir={folder}")
    output = launch(*command)
    kept = {path.name: path.read_text() for path in folder.glob("*.csv")}
    assert launch(*command) == output
    assert {path.name: path.read_text() for path in folder.glob("*.csv")} == kept
    return output


def test_regal_actions_smoke(tmp_path):
    output = launch_twice("regal_actions.py", tmp_path, f"--flagfile={SMOKE}/regal_actions.flags")
    assert "placement  scheduling  elite bias  " in output
    assert "4.67" in output  # the paper's
    assert "no preference     lower priority" in output
    assert (tmp_path / "scheduling" / "best.policy").exists()


def test_the_actions_of_the_shipped_policy_need_no_training(tmp_path):
    shipped = ("--policy=shipped", "--test_graphs=1", f"--output_dir={tmp_path}")
    output = launch("regal_actions.py", f"--flagfile={SMOKE}/regal_actions.flags", *shipped)
    assert output.startswith("actions on 1 graphs")
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"actions_regal_peak_memory.csv", "config.flags"}


def test_regal_propagation_smoke(tmp_path):
    output = launch_twice(
        "regal_propagation.py", tmp_path, f"--flagfile={SMOKE}/regal_propagation.flags"
    )
    assert [line.split()[:2] for line in output.splitlines()[-2:]] == [["0", "1"], ["1", "1"]]
    folder = tmp_path / "rounds_1_weight_0.001_seed_0"
    assert (folder / "best.policy").exists()


def test_tuned_brkga_smoke(tmp_path):
    output = launch_twice("tuned_brkga.py", tmp_path, f"--flagfile={SMOKE}/tuned_brkga.flags")
    assert "54 settings, 6 but for" in output
    found = json.loads((tmp_path / "tuned_brkga_peak_memory.json").read_text())
    assert found["improvement"] >= 0
    assert set(found["best"]) == {*BRKGAConfig._fields, "alpha", "beta"}


def test_regal_evaluations_smoke(tmp_path):
    output = launch_twice(
        "regal_evaluations.py", tmp_path, f"--flagfile={SMOKE}/regal_evaluations.flags"
    )
    assert "improvement over BRKGA with 2000 evaluations" in output
    assert "fewer evaluations" in output


def test_regal_times_smoke(tmp_path):
    output = launch_twice("regal_times.py", tmp_path, f"--flagfile={SMOKE}/regal_times.flags")
    assert "gas is left out" in output
    assert "paper over brkga" in output


def test_regal_pipelines_smoke(tmp_path):
    output = launch_twice(
        "regal_pipelines.py", tmp_path, f"--flagfile={SMOKE}/regal_pipelines.flags"
    )
    assert "2 stages, 4 microbatches" in output
    assert "zb-h1 is reached by" in output

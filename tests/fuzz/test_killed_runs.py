"""Runs that are killed again and again end where undisturbed ones do."""

import csv
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from regal_jax.graphs import files

ROOT = Path(__file__).parents[2]
RUNS = 10
KILLS = 10
"""Of each of the runs of both kinds, at most: 200 in all."""

COMMANDS = {
    "regal_memory": ("--seeds=1", "--microbatches=1", "--output_dir="),
    "build_model_zoo": ("--output=",),
}
"""Flags, the last of which is where results go."""


def command(name, folder):
    flags = ROOT / "experiments" / "flags" / "smoke" / f"{name}.flags"
    script = str(ROOT / "experiments" / f"{name}.py")
    *more, target = COMMANDS[name]
    return [sys.executable, script, f"--flagfile={flags}", *more, f"{target}{folder}"]


def outcome(name, folder):
    """What a run has found, but for the seconds it took."""
    if name == "build_model_zoo":
        paths = sorted(folder.rglob("*.jsonl*"))
        return {path.name: [g.fingerprint for g in files.load_graphs(path)] for path in paths}
    with (folder / "results.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] != "seconds"]
    policy = (folder / "training" / "best.policy").read_bytes()
    return sorted(tuple(row.values()) for row in rows), policy


@pytest.fixture(scope="module", params=COMMANDS)
def undisturbed(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    subprocess.run(command(request.param, folder), cwd=ROOT, check=True, capture_output=True)
    return request.param, outcome(request.param, folder)


@pytest.mark.parametrize("run", range(RUNS))
def test_a_killed_run_goes_on(undisturbed, run, tmp_path):
    name, expected = undisturbed
    rng = random.Random(run)
    for kill in range(KILLS + 1):
        process = subprocess.Popen(
            command(name, tmp_path), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        try:
            _, error = process.communicate(timeout=rng.uniform(1, 20) if kill < KILLS else None)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            continue
        assert process.returncode == 0, error.decode()[-2000:]
        break
    assert outcome(name, tmp_path) == expected
    assert not [path for path in tmp_path.rglob(".*") if path.is_file()]

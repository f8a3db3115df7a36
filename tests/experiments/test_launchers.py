"""What the pages tell people to run, run: the launchers."""

import contextlib
import gzip
import io
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import absl.app  # and logging: they keep the FLAGS of their first import
import absl.flags
import pytest

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "experiments"


def launch_process(script: str, *arguments: str) -> subprocess.CompletedProcess:
    """Runs a launcher as people do."""
    command = [sys.executable, str(EXPERIMENTS / script), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def launch(script: str, *arguments: str) -> str:
    """Runs a launcher in this process, which has imported and compiled most of it; its output."""
    path, out, err = str(EXPERIMENTS / script), io.StringIO(), io.StringIO()
    absl.flags.FLAGS.mark_as_parsed()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(err):
        patch.setattr(absl.flags, "FLAGS", absl.flags.FlagValues())
        patch.setattr(sys, "argv", [path, *arguments])
        patch.chdir(ROOT)
        with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as end:
            runpy.run_path(path, run_name="__main__")
    assert not end.value.code, f"{end.value.code}\n{err.getvalue()[-2000:]}"
    return out.getvalue()


def test_onnx_memory(tmp_path):
    onnx = pytest.importorskip("onnx")
    one, two = (onnx.helper.make_tensor_value_info(name, 1, [4]) for name in "xy")
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    onnx.save(
        onnx.helper.make_model(onnx.helper.make_graph([node], "toy", [one], [two])),
        tmp_path / "toy.onnx",
    )
    arguments = (f"--models={tmp_path / 'toy.onnx'}", f"--output_dir={tmp_path}")
    assert "`toy`" in launch("onnx_memory.py", *arguments, "--evaluations=10")


def test_quickstart(tmp_path):
    arguments = ("--model=mlp", "--evaluations=700", f"--output_dir={tmp_path}")
    output = launch_process("quickstart.py", *arguments).stdout
    assert "fullest device" in output
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"graph.json", "schedule.json", "trace.json", "memory.png"}


@pytest.mark.parametrize("name", ["regal_memory", "regal_runtime"])
def test_regal_smoke(name, tmp_path):
    flags = EXPERIMENTS / "flags" / "smoke" / f"{name}.flags"
    output = launch(f"{name}.py", f"--flagfile={flags}", f"--output_dir={tmp_path}")
    assert "regal_paper 500" in output
    assert "win or tie %" in output
    assert (tmp_path / "training" / "best.policy").exists()
    rows = (tmp_path / "results.csv").read_text()
    if name == "regal_memory":  # the two launchers differ in the objective
        again = launch_process(f"{name}.py", f"--flagfile={flags}", f"--output_dir={tmp_path}")
        assert again.stdout == output
    assert (tmp_path / "results.csv").read_text() == rows


def test_the_smoke_budget_does_for_the_shipped_policy(tmp_path):
    flags = EXPERIMENTS / "flags" / "smoke" / "regal_memory.flags"
    shipped = ("--policy=shipped", "--methods=brkga,regal_paper", "--test_graphs=1", "--seeds=1")
    output = launch("regal_memory.py", f"--flagfile={flags}", *shipped, f"--output_dir={tmp_path}")
    assert "regal_paper 500" in output
    assert not (tmp_path / "training").exists()


def test_regal_dispatch_smoke(tmp_path):
    flags = EXPERIMENTS / "flags" / "smoke" / "regal_dispatch.flags"
    arguments = (f"--flagfile={flags}", f"--output_dir={tmp_path}")
    output = launch("regal_dispatch.py", *arguments)
    assert "regal 200" in output
    assert "dispatch 20" in output
    assert (tmp_path / "training" / "best.policy").exists()
    assert launch("regal_dispatch.py", *arguments) == output


FORK = {
    "name": "fork",
    "durations": [2, 3, 3, 1],
    "edges": [[0, 1], [0, 2], [1, 3], [2, 3]],
    "published": {"2": [6, 6], "4": [6, 6]},
    "verified_optimum": {"2": 6, "4": 6},
}
"""Two branches of 3 between a head of 2 and a tail of 1."""


def write_task_graphs(folder, record):
    folder.mkdir()
    with gzip.open(folder / "stg50.jsonl.gz", "wt") as file:
        file.write(json.dumps(record) + "\n")


def test_standard_task_graphs_smoke(tmp_path):
    write_task_graphs(tmp_path / "data", FORK)
    flags = EXPERIMENTS / "flags" / "smoke" / "stg.flags"
    arguments = (f"--flagfile={flags}", f"--data_dir={tmp_path / 'data'}")
    output = launch("stg.py", *arguments, f"--output_dir={tmp_path / 'out'}")
    assert re.search(r"`etf` .*0\.0", output)
    assert launch("stg.py", *arguments, f"--output_dir={tmp_path / 'out'}") == output


def test_a_schedule_below_a_verified_optimum_stops_the_experiment(tmp_path):
    write_task_graphs(tmp_path / "data", FORK | {"verified_optimum": {"2": 7, "4": 7}})
    flags = EXPERIMENTS / "flags" / "smoke" / "stg.flags"
    arguments = (f"--data_dir={tmp_path / 'data'}", f"--output_dir={tmp_path / 'out'}")
    done = launch_process("stg.py", f"--flagfile={flags}", *arguments)
    assert done.returncode == 1
    assert "fork" in done.stderr
    assert "Traceback" not in done.stderr


def test_recompute(tmp_path):
    pytest.importorskip("ortools")
    flags = EXPERIMENTS / "flags" / "smoke" / "recompute.flags"
    output = launch("recompute.py", f"--flagfile={flags}", f"--output_dir={tmp_path}")
    assert "| `layered 10 9-0` |" in output
    assert launch("recompute.py", f"--flagfile={flags}", f"--output_dir={tmp_path}") == output


def test_the_model_zoo_is_built_and_packed(tmp_path):
    built, packed = tmp_path / "built", tmp_path / "packed"
    flags = EXPERIMENTS / "flags" / "smoke"
    first = launch(
        "build_model_zoo.py", f"--flagfile={flags}/build_model_zoo.flags", f"--output={built}"
    )
    assert " 0 failed" in first
    pack = (f"--flagfile={flags}/pack_model_zoo.flags", f"--folder={built}", f"--output={packed}")
    assert "graphs, described in" in launch("pack_model_zoo.py", *pack)
    card = (packed / "model_zoo.csv").read_bytes()
    launch("pack_model_zoo.py", *pack)
    assert (packed / "model_zoo.csv").read_bytes() == card
    assert b"flax/mlp" in card


def test_proofs(tmp_path):
    flags = EXPERIMENTS / "flags" / "smoke" / "proofs.flags"
    output = launch("proofs.py", f"--flagfile={flags}", f"--output_dir={tmp_path}")
    assert "proven optimal, %" in output
    assert launch("proofs.py", f"--flagfile={flags}", f"--output_dir={tmp_path}") == output

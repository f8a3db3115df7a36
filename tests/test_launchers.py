"""What the README tells people to run, run."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXPERIMENTS = ROOT / "experiments"


def launch(script: str, *arguments: str) -> str:
    command = [sys.executable, str(EXPERIMENTS / script), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_quickstart(tmp_path):
    output = launch("quickstart.py", "--model=mlp", "--evaluations=700", f"--output_dir={tmp_path}")
    assert "fullest device" in output
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"graph.json", "schedule.json", "trace.json", "memory.png"}


def test_regal_memory_smoke(tmp_path):
    flags = EXPERIMENTS / "flags" / "smoke" / "regal_memory.flags"
    output = launch("regal_memory.py", f"--flagfile={flags}", f"--output_dir={tmp_path}")
    assert "regal 300" in output
    assert "win or tie %" in output
    assert (tmp_path / "training" / "best.policy").exists()
    rows = (tmp_path / "results.csv").read_text()
    again = launch("regal_memory.py", f"--flagfile={flags}", f"--output_dir={tmp_path}")
    assert again == output
    assert (tmp_path / "results.csv").read_text() == rows


def test_the_model_zoo_is_built_packed_and_looked_at(tmp_path):
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
    page = tmp_path / "zoo.html"
    launch("model_zoo_page.py", f"--card={packed}/model_zoo.csv", f"--output={page}")
    assert "flax/mlp" in page.read_text()


def test_readme_quick_start(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(code.group(1), {})
    assert (tmp_path / "schedule.json").exists()

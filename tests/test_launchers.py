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


def test_readme_quick_start(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(code.group(1), {})
    assert (tmp_path / "schedule.json").exists()

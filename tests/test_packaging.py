"""What is installed: the wheel holds all that the package reads, and launchers are found in it."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import regal_jax as rj

ROOT = Path(__file__).parents[1]
LEFT_OUT = {".pyc", ".nbi", ".nbc", ".so"}
SCRIPT = """
import regal_jax
from regal_jax import shipped
from regal_jax.environments.execution.targets import read_target
print(regal_jax.__file__, shipped.flagfiles("regal_memory")["smoke"], read_target("latency").name)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with what the wheel holds."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob(f"regal_jax-{rj.__version__}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def files(folder):
    return {
        path.relative_to(folder)
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in LEFT_OUT
    }


def test_the_wheel_holds_all_files(installed):
    package = installed / "regal_jax"
    assert files(ROOT / "experiments") == files(package / "experiments")
    shipped = {path for path in files(package) if path.parts[0] != "experiments"}
    assert files(ROOT / "regal_jax") == shipped
    assert Path("pretrained/regal_peak_memory.policy") in shipped


def test_launchers_and_targets_are_found_in_it(installed, tmp_path):
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(installed)}, capture_output=True, text=True
    )
    module, flagfile, name = done.stdout.split()
    assert module == str(installed / "regal_jax/__init__.py")
    assert flagfile == str(installed / "regal_jax/experiments/flags/smoke/regal_memory.flags")
    assert name == "latency"


def test_the_version_stands_once(installed):
    (metadata,) = installed.glob("*.dist-info/METADATA")
    assert f"\nVersion: {rj.__version__}\n" in metadata.read_text()
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == rj.__version__

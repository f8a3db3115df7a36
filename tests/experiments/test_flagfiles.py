"""Launchers are short, read their flagfiles, and are the only readers of the global flags."""

import re
import runpy
from pathlib import Path

import pytest
from absl import flags

from regal_jax.studies import flags as config_flags

ROOT = Path(__file__).parents[2]
LAUNCHERS = sorted((ROOT / "experiments").glob("*.py"))
FLAGFILES = sorted((ROOT / "experiments" / "flags").glob("*/*.flags"))
MOST_LINES = 60


def owner(file: Path) -> str | None:
    """The launcher that a flagfile is for: its name, or what it begins with."""
    names = [path.stem for path in LAUNCHERS if f"{file.stem}_".startswith(f"{path.stem}_")]
    return max(names, key=len, default=None)


@pytest.mark.parametrize("launcher", LAUNCHERS, ids=lambda path: path.stem)
def test_a_launcher_reads_each_of_its_flagfiles(launcher, monkeypatch):
    monkeypatch.setattr(flags, "FLAGS", flags.FlagValues())
    defaults = runpy.run_path(str(launcher)).get("DEFAULTS")
    for file in (file for file in FLAGFILES if owner(file) == launcher.stem):
        values = flags.FlagValues()
        config_flags.define(defaults, values)
        values(["test", f"--flagfile={file}"])
        settings = config_flags.read(defaults, values)
        assert type(settings) is type(defaults)
        if file.parent.name != "small":  # where results go by default
            folder = settings.output_dir if "output_dir" in values else settings.output
            assert Path(folder).parts[:2] == ("results", file.parent.name)


@pytest.mark.parametrize("launcher", LAUNCHERS, ids=lambda path: path.stem)
def test_a_launcher_is_short(launcher):
    assert len(launcher.read_text().splitlines()) < MOST_LINES


def test_only_launchers_touch_the_global_flags():
    for path in (ROOT / "regal_jax").rglob("*.py"):
        assert not re.search(r"\bflags\.FLAGS\b|\bimport FLAGS\b|\bFLAGS\.", path.read_text()), path


def test_every_flagfile_has_a_launcher():
    assert [file for file in FLAGFILES if owner(file) is None] == []

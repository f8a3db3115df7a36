"""Runs a launcher: trains, compares, prints a paper's table. Without a name it lists them.

--flagfile takes a path, or smoke (a minute), small (an hour or so) or paper (GPU days): the
launcher's own. All other flags are the launcher's, too; NAME --help tells them. Results are written
below the working directory, to results/.

examples:
  regal-jax experiment
  regal-jax experiment quickstart
  regal-jax experiment regal_memory --flagfile=smoke
  regal-jax experiment regal_memory --flagfile=small --policy=shipped --seeds=5
  regal-jax experiment regal_memory --help
"""

import argparse
import ast
import subprocess
import sys
from pathlib import Path

from regal_jax import registry, shipped
from regal_jax.errors import OptionError
from regal_jax.reporting import tables


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The launcher, and what it is given."""
    parser.add_argument("launcher", metavar="NAME", nargs="?", help="a launcher")
    parser.add_argument("flags", metavar="FLAGS", nargs=argparse.REMAINDER, help="its flags")


def run(options: argparse.Namespace) -> None:
    """Runs a launcher to its end, or lists them. Raises OptionError for an unknown name; exits with
    the launcher's status."""
    known = shipped.launchers()
    if options.launcher is None:
        tables.print_table([_row(name, path) for name, path in known.items()])
        return
    registry.check_known("experiment", options.launcher, list(known))
    given = [_flag(options.launcher, flag) for flag in options.flags]
    status = subprocess.run([sys.executable, known[options.launcher], *given]).returncode
    if status:
        raise SystemExit(status)


def _row(name: str, path: Path) -> dict[str, str]:
    about = ast.get_docstring(ast.parse(path.read_text())) or ""
    sizes = ", ".join(shipped.flagfiles(name))
    return {"experiment": name, "flagfiles": sizes, "what it does": about.split("\n\n")[0]}


def _flag(launcher: str, flag: str) -> str:
    """The flag; a flagfile's size becomes its path. Raises OptionError where there is none."""
    size = flag.removeprefix("--flagfile=")
    if size == flag or size not in shipped.SIZES:
        return flag
    files = shipped.flagfiles(launcher)
    if size not in files:
        known = ", ".join(files) or "no flagfile of its own"
        raise OptionError(f"--flagfile={size}: {launcher} has {known}")
    return f"--flagfile={files[size]}"

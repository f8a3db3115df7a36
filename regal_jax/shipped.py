"""What comes with the package besides its modules: launchers, their flagfiles, target models."""

from pathlib import Path

SIZES = ("smoke", "small", "paper")
"""Of flagfiles: a minute, an hour or so, the paper's numbers."""


def experiments() -> Path:
    """The folder ``experiments``: inside the package where it is installed, beside it in a
    checkout."""
    package = Path(__file__).parent
    inside = package / "experiments"
    return inside if inside.is_dir() else package.parent / "experiments"


def targets() -> dict[str, Path]:
    """The files of the target models, by name."""
    return {path.stem: path for path in sorted((experiments() / "targets").glob("*.toml"))}


def launchers() -> dict[str, Path]:
    """The launchers, by name."""
    return {path.stem: path for path in sorted(experiments().glob("*.py"))}


def flagfiles(launcher: str) -> dict[str, Path]:
    """The flagfiles of a launcher, by size: smoke, small, paper."""
    folder = experiments() / "flags"
    found = {size: folder / size / f"{launcher}.flags" for size in SIZES}
    return {size: path for size, path in found.items() if path.is_file()}

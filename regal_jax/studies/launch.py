"""How a launcher script starts: quiet, with compiled programs cached, errors in one line."""

from collections.abc import Callable
from pathlib import Path

from absl import app, flags, logging

from regal_jax import compilation_cache
from regal_jax.errors import RegalError
from regal_jax.graphs import files
from regal_jax.studies.settings import Output


def run(main: Callable, values: flags.FlagValues) -> None:
    """Parses the command line into ``values`` and runs a launcher's ``main``; a wrong flag or a
    RegalError is one line on stderr, exit status 1."""
    logging.set_verbosity(logging.WARNING)
    compilation_cache.enable()
    try:
        app.run(main, flags_parser=values)
    except (flags.Error, RegalError) as error:
        raise SystemExit(f"error: {error}") from None


def folder(settings: Output, values: flags.FlagValues) -> Path:
    """--output_dir, made if need be, with the flags of this run in ``config.flags``."""
    path, text = Path(settings.output_dir), values.flags_into_string()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RegalError(f"output_dir: {path}: can't be made: {error.strerror}") from None
    files.write_atomically(path / "config.flags", lambda file: file.write(text.encode()))
    return path

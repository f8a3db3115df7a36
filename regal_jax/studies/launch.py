"""How a launcher script starts: quiet, with compiled programs cached, errors in one line."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from absl import app, flags, logging

from regal_jax import compilation_cache
from regal_jax.errors import RegalError
from regal_jax.graphs import files
from regal_jax.studies import flags as config_flags
from regal_jax.studies.settings import Output
from regal_jax.training import hosts

flags.disclaim_key_flags()  # --help shows them as the launcher's

Folder = Callable[[], Path]
"""Makes the folder of --output_dir, see ``folder``."""


def run(main: Callable[[Any, Folder], None], defaults: Any, values: flags.FlagValues) -> None:
    """Parses the command line into ``values``, flags of the fields of ``defaults``, and runs a
    launcher's ``main`` of the settings and of what makes ``folder``; a wrong flag or a RegalError
    is one line on stderr, exit status 1."""
    logging.set_verbosity(logging.WARNING)
    compilation_cache.enable()
    config_flags.define(defaults, values)

    def start(_) -> None:
        settings = config_flags.read(defaults, values)
        hosts.join(getattr(settings, "hosts", ""))
        main(settings, functools.partial(folder, settings, values))

    try:
        app.run(start, flags_parser=values)
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

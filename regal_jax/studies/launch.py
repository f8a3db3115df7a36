"""How a launcher script starts: quiet, with compiled programs cached, errors in one line."""

from collections.abc import Callable

from absl import app, logging

from regal_jax import compilation_cache
from regal_jax.errors import RegalError


def run(main: Callable) -> None:
    """Runs a launcher's ``main`` under absl; a RegalError is one line on stderr, exit status 1."""
    logging.set_verbosity(logging.WARNING)
    compilation_cache.enable()
    try:
        app.run(main)
    except RegalError as error:
        raise SystemExit(f"error: {error}") from None

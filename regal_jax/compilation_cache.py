"""A persistent cache of compiled programs, so that only a machine's first run compiles."""

import os
from pathlib import Path


def enable() -> None:
    """Keeps compiled programs in ``$XDG_CACHE_HOME/regal_jax`` (~/.cache by default).

    Does nothing where JAX has been given a cache already, or the folder can't be made. For the
    command line and launchers only: it changes JAX's configuration.
    """
    import jax  # not for --help

    if jax.config.jax_compilation_cache_dir:  # type: ignore[attr-defined]
        return
    try:
        folder().mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    jax.config.update("jax_compilation_cache_dir", str(folder()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def folder() -> Path:
    """``$XDG_CACHE_HOME/regal_jax`` (~/.cache by default)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regal_jax"

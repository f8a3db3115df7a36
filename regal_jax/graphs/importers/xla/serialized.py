"""Serialized HLO modules as text, by jaxlib's own reader."""

import contextlib
import importlib
import os
import sys
import tempfile
from collections.abc import Iterator

from regal_jax.errors import ImporterError


def deserialized(data: bytes, where: str) -> str:
    """The text of a serialized module. Raises ImporterError, naming ``where`` it is from."""
    try:
        hlo = importlib.import_module("jaxlib._hlo")
    except ImportError:
        raise ImporterError(f"{where}: this jaxlib can't read modules; give the text") from None
    try:
        with _without_stderr():
            return hlo.HloModule.from_serialized_hlo_module_proto(data).to_string()
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise ImporterError(f"{where}: not a serialized HLO module ({reason})") from None


@contextlib.contextmanager
def _without_stderr() -> Iterator[None]:
    """Leaves out what C++ inside writes to the process's stderr: stack traces of bad modules."""
    try:
        sys.stderr.flush()
        kept = os.dup(2)
    except (OSError, ValueError, AttributeError):  # there is none
        yield
        return
    try:
        with tempfile.TemporaryFile() as swallowed:
            os.dup2(swallowed.fileno(), 2)
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)

"""What subcommands print on stdout."""

import json
from collections.abc import Iterable
from typing import Any

from regal_jax.reporting.terminal import say


def say_json(value: Any) -> None:
    """A value for scripts."""
    say(json.dumps(value, indent=2))


def say_wrote(paths: Iterable[str]) -> None:
    """A line each file that was written."""
    for path in paths:
        say(f"wrote {path}")

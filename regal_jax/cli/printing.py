"""What subcommands print: results on stdout, as they are asked for, and details on stderr."""

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

from regal_jax.reporting.terminal import one_line, say


def report(options: argparse.Namespace, value: Any, show: Callable[[], None]) -> None:
    """Prints a result: ``value`` with --json, nothing with --quiet, else by ``show``."""
    if options.json:
        say(json.dumps(value, indent=2))
    elif not options.quiet:
        show()


def say_wrote(paths: Iterable[str]) -> None:
    """A line each file that was written."""
    for path in paths:
        say(f"wrote {path}")


def detail(options: argparse.Namespace, text: str) -> None:
    """A line on stderr with --verbose."""
    if options.verbose:
        say(f"regal-jax: {one_line(text)}", sys.stderr)

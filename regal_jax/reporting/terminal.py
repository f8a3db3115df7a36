"""Text on a terminal: names that come out of files don't move its cursor or change its colours."""

import sys
from typing import TextIO


def printable(text: str) -> str:
    """The text; control and formatting characters but line ends become escapes (``\\x1b``)."""
    return "".join(c if c == "\n" or c.isprintable() else _escaped(c) for c in text)


def one_line(text: str) -> str:
    """The text in one line, printable."""
    return printable(" ".join(text.split()))


def say(text: str, file: TextIO | None = None) -> None:
    """Prints a text, printable, on ``file`` (stdout)."""
    print(printable(text), file=file or sys.stdout)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()

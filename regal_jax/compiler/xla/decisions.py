"""Orders that were chosen before, one file a program in a folder.

A decision's key is of everything that it depends on: the program before XLA, versions, the options
of the compiler, XLA's flags, and how orders were searched for. A file that can't be read is no
decision; one that can't be written is none, either.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jaxlib

from regal_jax.compilation_cache import folder
from regal_jax.errors import RegalError
from regal_jax.graphs.files import write_atomically

FORMAT = "regal-order/1"


class Memory(NamedTuple):
    """Bytes that XLA allocates for a program: temporaries, results, and how much of the results
    lies in donated arguments."""

    temporaries: int
    output: int
    donated: int

    @property
    def total(self) -> int:
        """Bytes beyond the arguments."""
        return self.temporaries + self.output - self.donated


class Decision(NamedTuple):
    """The order that a program is compiled in.

    Attributes:
      module: the name of its module in XLA.
      name: what the order is by.
      order: of the instructions of some computations; empty for XLA's default.
      memory: of every order that was compiled, by name.
    """

    module: str
    name: str
    order: Mapping[str, Sequence[str]]
    memory: Mapping[str, Memory]


def default_folder() -> Path:
    """``$XDG_CACHE_HOME/regal_jax/orders`` (~/.cache by default)."""
    return folder() / "orders"


def key_of(lowered: jax.stages.Lowered, *settings: Any) -> str:
    """The key of a lowered function's decision."""
    parts = (
        *(FORMAT, jax.__version__, jaxlib.__version__, os.environ.get("XLA_FLAGS", "")),
        *(repr(setting) for setting in settings),
        lowered.as_text(),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def load(where: Path, key: str) -> Decision | None:
    """A decision, if there is one."""
    try:
        document = json.loads((where / f"{key}.json").read_text())
        if document.pop("format") != FORMAT:
            return None
        memory = {name: Memory(*sizes) for name, sizes in document.pop("memory").items()}
        return Decision(**document, memory=memory)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def save(where: Path, key: str, decision: Decision) -> None:
    """Writes a decision, atomically; does nothing where that isn't possible."""
    text = json.dumps({"format": FORMAT, **decision._asdict()})
    try:
        where.mkdir(parents=True, exist_ok=True)
        write_atomically(where / f"{key}.json", lambda file: file.write(text.encode()))
    except (OSError, RegalError):
        return

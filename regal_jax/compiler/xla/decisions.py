"""Orders that were chosen before, one file a program in a folder.

A decision's key is of everything that it depends on: the program before XLA, versions, the options
of the compiler, XLA's flags, and how orders were searched for. A file holds its key and a digest
of its content: one that can't be read, or isn't as it was written, is no decision; one that can't
be written is none, either.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jaxlib

from regal_jax.compilation_cache import folder
from regal_jax.errors import RegalError
from regal_jax.graphs.files import write_atomically

FORMAT = "regal-order/3"

_SHARDING = r"sdy\.sharding = #sdy\.sharding<@empty_mesh, [^>]*>"
_ONE_DEVICE = re.compile(
    rf"\n *sdy\.mesh @empty_mesh.*| \{{{_SHARDING}\}}|{_SHARDING}, |, {_SHARDING}"
)
"""What lowered text says where an argument is told to lie on one device, such as one that isn't
there: nothing, so that a decision that was made without the device holds on it."""


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
      least: bytes beyond the arguments that every order needs.
    """

    module: str
    name: str
    order: Mapping[str, Sequence[str]]
    memory: Mapping[str, Memory]
    least: int


def default_folder() -> Path:
    """``$XDG_CACHE_HOME/regal_jax/orders`` (~/.cache by default)."""
    return folder() / "orders"


def key_of(lowered: jax.stages.Lowered, *settings: Any) -> str:
    """The key of a lowered function's decision."""
    parts = (
        *(FORMAT, jax.__version__, jaxlib.__version__, os.environ.get("XLA_FLAGS", "")),
        *(repr(setting) for setting in settings),
        _ONE_DEVICE.sub("", lowered.as_text()),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def load(where: Path, key: str) -> Decision | None:
    """A decision, if there is one."""
    try:
        document = json.loads((where / f"{key}.json").read_bytes())
        content: Any = document["content"] if isinstance(document, dict) else None
        if document != _document(key, content) or not _is_decision(content):
            return None
    except (OSError, ValueError, KeyError, RecursionError):
        return None
    memory = {name: Memory(*sizes) for name, sizes in content["memory"].items()}
    return Decision(**content | {"memory": memory})


def save(where: Path, key: str, decision: Decision) -> None:
    """Writes a decision, atomically; does nothing where that isn't possible."""
    text = json.dumps(_document(key, decision._asdict()))
    try:
        where.mkdir(parents=True, exist_ok=True)
        write_atomically(where / f"{key}.json", lambda file: file.write(text.encode()))
    except (OSError, RegalError):
        return


def _document(key: str, content: Any) -> dict[str, Any]:
    """What a file holds."""
    text = json.dumps(content, sort_keys=True)
    digest = hashlib.sha256(f"{key}\0{text}".encode()).hexdigest()
    return {"format": FORMAT, "key": key, "digest": digest, "content": content}


def _is_decision(content: Any) -> bool:
    """Whether the content of a file has the fields of a decision, of their types."""
    if not (isinstance(content, dict) and set(content) == set(Decision._fields)):
        return False
    module, name, order, memory, least = (content[field] for field in Decision._fields)
    return (
        all(isinstance(text, str) for text in (module, name))
        and all(isinstance(mapping, dict) for mapping in (order, memory))
        and all(_are(str, sequence) for sequence in order.values())
        and all(_are(int, sizes) and len(sizes) == 3 for sizes in memory.values())
        and name in memory
        and type(least) is int
    )


def _are(kind: type, values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is kind for value in values)

"""The hyperparameters of a training run: what resuming it must not change."""

import dataclasses
import hashlib
import importlib.metadata
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.files import write_atomically

REMEDY = "go on with what it began with, or choose another output_dir"


def stored(hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
    """Hyperparameters as they are read back from JSON: {"training.learning_rate": 1e-4, ...}.

    Dataclasses among them have an entry for each field.
    """
    flat: dict[str, Any] = {}
    for name, value in hyperparameters.items():
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = dataclasses.asdict(value)
            flat |= {f"{name}.{field}": its for field, its in fields.items()}
        else:
            flat[name] = value
    return json.loads(json.dumps(flat))


def check(
    directory: Path,
    earlier: Mapping[str, Any] | None,
    now: Mapping[str, Any],
    may_grow: Sequence[str],
) -> None:
    """Raises OptionError unless a run of ``earlier`` hyperparameters may go on with those of now;
    without earlier ones, it is a new run."""
    if earlier is None:
        return
    changed = [
        f"{name} was {earlier.get(name)!r}, now {now.get(name)!r}"
        for name in sorted({*earlier, *now})
        if earlier.get(name) != now.get(name)
        and not (name in may_grow and earlier[name] < now[name])
    ]
    if changed:
        raise OptionError(f"{directory} holds another training: {'; '.join(changed)}; {REMEDY}")


def write(path: Path, hyperparameters: Mapping[str, Any]) -> None:
    """Writes hyperparameters and the version of the code, as JSON."""
    found = {"hyperparameters": hyperparameters, "code": code_version()}
    text = json.dumps(found, indent=2) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def code_version() -> dict[str, str]:
    """The versions of regal_jax and JAX, and a hash of regal_jax's source files."""
    package, digest = Path(__file__).parents[1], hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(file.relative_to(package).as_posix().encode() + file.read_bytes())
    try:
        version = importlib.metadata.version("regal_jax")
    except importlib.metadata.PackageNotFoundError:
        version = "not installed"
    return {
        "regal_jax": version,
        "source": digest.hexdigest()[:16],
        "jax": jax.__version__,
    }


def graphs_fingerprint(graphs: Iterable[ComputationGraph]) -> str:
    """A hash of graphs in their order; their names are not part of it."""
    return hashlib.sha256("".join(graph.fingerprint for graph in graphs).encode()).hexdigest()[:16]


def arrays_fingerprint(tree: Any) -> str | None:
    """A hash of the arrays of a tree; None for None."""
    if tree is None:
        return None
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(jax.device_get(tree)):
        array = np.asarray(leaf)
        digest.update(f"{array.shape}{array.dtype}".encode() + array.tobytes())
    return digest.hexdigest()[:16]

"""Keys of results: digests of everything that changes a result."""

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import jax
import numpy as np

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.options import Options


def key(**parts: Any) -> str:
    """16 hex digits, the start of the SHA-256 of the canonical JSON of what a result depends on.

    A graph stands for its name and content, a path for the content of its file, a function for its
    name; ``Options`` without a policy for the content of all shipped ones. Equal numbers are equal
    (0 and 0.0).

    Raises:
      OptionError: for a part whose content can't be told, such as a lambda, and for a file
        that can't be read.
    """
    text = json.dumps(_canonical(parts), sort_keys=True, separators=(",", ":"))
    return _digest(text.encode())


def policy_content(path: str | os.PathLike | None) -> str:
    """A digest of a policy file; of everything in ``regal_jax/pretrained`` for None, since methods
    choose among these by the problem."""
    if path is not None:
        return _content(Path(path))
    shipped = sorted(Path(str(resources.files("regal_jax.pretrained"))).iterdir())
    named = [file.name + _content(file) for file in shipped if file.suffix in (".policy", ".json")]
    return _digest("".join(named).encode())


def machine() -> dict[str, Any]:
    """What compiled programs and their times depend on besides the program."""
    return {
        "jax": jax.__version__,
        "platform": jax.default_backend(),
        "device": jax.devices()[0].device_kind,
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }


@functools.singledispatch
def _canonical(value: Any) -> Any:
    """A value as JSON has it."""
    if dataclasses.is_dataclass(value):
        return _canonical(_fields(value))
    if isinstance(value, np.generic):
        return _canonical(value.item())
    name = getattr(value, "__qualname__", "<")
    if "<" in name:
        raise OptionError(
            f"{value!r} can't be part of a result's key, since what it holds isn't known;"
            " give plain data, or a function defined at the top of a module"
        )
    return f"{value.__module__}.{name}"


@_canonical.register(str)
@_canonical.register(int)
@_canonical.register(type(None))
def _(value: Any) -> Any:
    return value


@_canonical.register
def _(value: float) -> Any:
    return int(value) if value.is_integer() else value


@_canonical.register
def _(graph: ComputationGraph) -> Any:
    return [graph.name, graph.fingerprint, _digest("\n".join(graph.op_kinds or ()).encode())]


@_canonical.register
def _(options: Options) -> Any:
    fields = _fields(options) | {"policy": policy_content(options.policy)}
    if isinstance(options.target, str):
        fields["target"] = Path(options.target)
    return _canonical(fields)


@_canonical.register(list)
@_canonical.register(tuple)
def _(values: Any) -> Any:
    if hasattr(values, "_asdict"):
        return _canonical(values._asdict())
    return [_canonical(value) for value in values]


@_canonical.register
def _(values: Mapping) -> Any:
    return {str(name): _canonical(value) for name, value in values.items()}


@_canonical.register
def _(array: np.ndarray) -> Any:
    return [array.shape, str(array.dtype), _digest(array.tobytes())]


@_canonical.register
def _(path: os.PathLike) -> str:
    return _content(Path(path))


@_canonical.register
def _(function: functools.partial) -> Any:
    return _canonical([function.func, function.args, function.keywords])


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _content(path: Path) -> str:
    try:
        return _digest(path.read_bytes())
    except OSError as error:
        raise OptionError(f"{path}: {(error.strerror or str(error)).lower()}") from None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]

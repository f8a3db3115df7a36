"""Reading and writing graphs: ``regal-graph/1`` in .json, .jsonl and .jsonl.gz files."""

import contextlib
import gzip
import itertools
import json
import os
import secrets
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from regal_jax import registry
from regal_jax.errors import GraphError, RegalError
from regal_jax.graphs.computation_graph import ComputationGraph

FORMAT = "regal-graph/1"
_OP_COLUMNS = (
    *("name", "kind", "duration", "workspace", "machine_type", "demand"),
    *("flops", "bytes_accessed"),
)
_TENSOR_COLUMNS = ("producer", "size", "persistent", "consumers")
_TOP_KEYS = ("format", "name", "family", "source", "ops", "tensors", "capacity")


@registry.importer(".json", ".jsonl", ".jsonl.gz")
def load_graph(path: str | os.PathLike) -> ComputationGraph:
    """Reads the one graph of a .json file (or of a .jsonl file that holds a single line).

    Raises GraphError naming file, line, field and reason.
    """
    graphs = load_graphs(path)
    if len(graphs) != 1:
        raise RegalError(f"{path}: holds {len(graphs)} graphs where one is needed")
    return graphs[0]


def load_graphs(path: str | os.PathLike) -> list[ComputationGraph]:
    """Reads every graph of a .json, .jsonl or .jsonl.gz file, in order. Raises GraphError."""
    path = Path(path)
    text = read_text(path)
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        lines = [(i, line) for i, line in enumerate(text.split("\n"), 1) if line.strip()]
    else:
        lines = [(1, text)]
    return [_located(f"{path}, line {number}", line) for number, line in lines]


def save_graph(graph: ComputationGraph, path: str | os.PathLike) -> None:
    """Writes one graph, atomically; the suffix chooses .json, .jsonl or .jsonl.gz."""
    save_graphs([graph], path)


def save_graphs(graphs: Iterable[ComputationGraph], path: str | os.PathLike) -> None:
    """Writes graphs, one a line (a .json file takes exactly one), atomically."""
    path = Path(path)
    lines = [json.dumps(graph_to_json(graph), separators=(",", ":")) for graph in graphs]
    if path.name.endswith(".json") and len(lines) != 1:
        raise RegalError(f"{path}: a .json file holds one graph, not {len(lines)}; use .jsonl")
    data = "".join(line + "\n" for line in lines).encode()
    if path.name.endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    write_atomically(path, lambda file: file.write(data))


def graph_from_json(document: Any) -> ComputationGraph:
    """A graph from a parsed ``regal-graph/1`` object. Raises GraphError."""
    if not isinstance(document, dict):
        raise GraphError("format", f"expected a JSON object of format {FORMAT!r}")
    if document.get("format") != FORMAT:
        raise GraphError("format", f"is {document.get('format')!r}, expected {FORMAT!r}")
    ops = _table(document, "ops", _OP_COLUMNS)
    tensors = _table(document, "tensors", _TENSOR_COLUMNS)
    for column in ("producer", "size", "consumers"):
        if column not in tensors:
            raise GraphError(f"tensors.{column}", "is required")
    known = [column for column in _OP_COLUMNS if column in ops]
    if not known:
        raise GraphError("ops", f"needs at least one of {', '.join(_OP_COLUMNS)}")
    num_ops = len(ops[known[0]])
    for column in known:
        if len(ops[column]) != num_ops:
            raise GraphError(f"ops.{column}", f"has {len(ops[column])} entries for {num_ops} ops")
    columns: dict[str, Any] = {column: tensors.get(column) for column in _TENSOR_COLUMNS}
    columns |= {column: ops.get(column) for column in _OP_COLUMNS[2:]}
    columns |= {key: _string(document, key) for key in ("name", "family", "source")}
    return ComputationGraph.create(
        num_ops=num_ops,
        **columns,
        capacity=_list(document, "capacity") if "capacity" in document else None,
        op_names=_strings("ops.name", ops.get("name", ())),
        op_kinds=_strings("ops.kind", ops.get("kind", ())),
        extra=_unknown_keys(document, ops, tensors),
    )


def graph_to_json(graph: ComputationGraph) -> dict[str, Any]:
    """The ``regal-graph/1`` object of a graph, with the unknown keys it was read with."""
    ops: dict[str, Any] = {
        "duration": graph.duration.tolist(),
        "workspace": graph.workspace.tolist(),
        "machine_type": graph.machine_type.tolist(),
        "demand": graph.demand.tolist(),
    }
    for column in ("flops", "bytes_accessed"):
        if (values := getattr(graph, column)) is not None:
            ops[column] = values.tolist()
    if graph.op_names:
        ops = {"name": list(graph.op_names)} | ops
    if graph.op_kinds:
        ops = {"kind": list(graph.op_kinds)} | ops
    flat, offsets = graph.consumers.values.tolist(), graph.consumers.offsets.tolist()
    tensors = {
        "producer": graph.producer.tolist(),
        "size": graph.size.tolist(),
        "persistent": graph.persistent.tolist(),
        "consumers": [flat[a:b] for a, b in itertools.pairwise(offsets)],
    }
    document: dict[str, Any] = {"format": FORMAT, "name": graph.name, "family": graph.family}
    document |= {"source": graph.source} | dict(graph.extra.get("", {}))
    document["ops"] = ops | dict(graph.extra.get("ops", {}))
    document["tensors"] = tensors | dict(graph.extra.get("tensors", {}))
    if graph.capacity is not None:
        document["capacity"] = graph.capacity.tolist()
    return document


def read_text(path: Path) -> str:
    """The text of a plain or gzip file; RegalError for a missing, truncated or binary one."""
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise RegalError(f"{path}: not UTF-8 text ({error.reason})") from None


def read_bytes(path: Path) -> bytes:
    """The bytes of a plain or gzip file; RegalError for a missing or truncated one."""
    try:
        data = path.read_bytes()
        if path.name.endswith(".gz") and not data:
            raise EOFError("empty file")
        return gzip.decompress(data) if path.name.endswith(".gz") else data
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise RegalError(f"{path}: truncated or damaged gzip file ({error})") from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise RegalError(f"{path}: {reason}") from None


def write_atomically(path: str | os.PathLike, write: Callable[[IO[bytes]], Any]) -> None:
    """Calls ``write`` on a temporary file beside ``path``, then renames it into place.

    The old file stays whole if anything fails. Where the system can, the temporary file has no name
    until it is whole, so that a killed process leaves nothing behind. Raises RegalError when the
    place can't be written.
    """
    path = Path(path)
    handle, temporary = _nameless(path.parent) or _temporary_beside(path)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fchmod(handle, 0o666 & ~_umask())
            temporary = temporary or _named(handle, path)
        os.replace(temporary, path)
    except OSError as error:
        raise RegalError(f"{path}: can't write there: {error.strerror}") from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            if temporary:
                os.unlink(temporary)


def append(path: Path, data: bytes) -> None:
    """Adds ``data`` to a file, which is made if need be; see ``append_to``. Raises RegalError."""
    try:
        with path.open("ab", buffering=0) as file:
            append_to(file, data)
    except OSError as error:
        raise RegalError(f"{path}: can't write there: {error.strerror}") from None


def append_to(file: IO[bytes], data: bytes) -> None:
    """Writes all of ``data`` at the end of an unbuffered file, onto the disk.

    Raises OSError where that fails, and leaves the file as it was.
    """
    end = file.seek(0, os.SEEK_END)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())
    except OSError:
        file.truncate(end)
        raise


def check_writable(path: str | os.PathLike) -> None:
    """Raises RegalError where ``write_atomically`` would; for before a long search."""
    path = Path(path)
    if os.path.isdir(path):  # not Path.is_dir, which raises where a name is one that none can have
        raise RegalError(f"{path}: can't write there: is a directory")
    handle, temporary = _temporary_beside(path)
    os.close(handle)
    os.unlink(temporary)


@contextlib.contextmanager
def located(where: str) -> Iterator[None]:
    """Adds a place (file, line) to a GraphError raised inside."""
    try:
        yield
    except GraphError as error:
        raise GraphError(f"{where}, {error.field}", error.reason) from None


def parse_json(where: str, text: str) -> Any:
    """json.loads with a one-line RegalError; NaN and Infinity are kept for the column checks."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: syntax, or thousands of digits
        raise RegalError(f"{where}: not JSON ({error})") from None


def _located(where: str, text: str) -> ComputationGraph:
    document = parse_json(where, text)
    with located(where):
        return graph_from_json(document)


def _nameless(folder: Path) -> tuple[int, str] | None:
    """(open handle, no name) of a file that is gone when it is closed; None where there is none."""
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600), ""
    except (AttributeError, OSError, ValueError):  # not Linux, or not this file system
        return None


def _named(handle: int, path: Path) -> str:
    """Gives a nameless file a name beside ``path``. Raises OSError."""
    name = f"{path.parent}/.{path.name}.{secrets.token_hex(4)}"
    os.link(f"/proc/self/fd/{handle}", name, src_dir_fd=handle)  # with a handle it follows the link
    return name


def _temporary_beside(path: Path) -> tuple[int, str]:
    """(open handle, name) of a new file in the folder of ``path``."""
    try:
        return tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise RegalError(f"{path}: can't write there: {reason}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _list(table: dict, key: str, field: str = "") -> list:
    if not isinstance(table[key], list):
        raise GraphError(field or key, "must be a list")
    return table[key]


def _table(document: dict, key: str, columns: tuple[str, ...]) -> dict[str, Any]:
    table = document.get(key)
    if not isinstance(table, dict):
        raise GraphError(key, "is required and must be an object of columns")
    for column in columns:
        if column in table:
            _list(table, column, f"{key}.{column}")
    return table


def _string(document: dict, key: str) -> str:
    value = document.get(key, "")
    if not isinstance(value, str):
        raise GraphError(key, "must be a string")
    return value


def _strings(field: str, values: Iterable) -> tuple[str, ...]:
    values = tuple(values)
    if not all(isinstance(value, str) for value in values):
        raise GraphError(field, "must hold strings only")
    return values


def _unknown_keys(document: dict, ops: dict, tensors: dict) -> dict[str, dict[str, Any]]:
    tables = {
        "": (document, _TOP_KEYS),
        "ops": (ops, _OP_COLUMNS),
        "tensors": (tensors, _TENSOR_COLUMNS),
    }
    extra = {
        table: {key: value for key, value in content.items() if key not in known}
        for table, (content, known) in tables.items()
    }
    return {table: content for table, content in extra.items() if content}

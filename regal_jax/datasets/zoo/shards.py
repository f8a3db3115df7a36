"""Many graphs in one small file: columns of all graphs end to end, in a compressed .npz.

What ``regal-graph/1`` says of a graph is kept, but for names of ops and tensors and for durations,
which follow from FLOPs, bytes and a device profile. A shard holds ``strings`` (UTF-8 JSON: names,
families, sources, kinds, roles, phases) and integer columns. ``producer`` and ``consumers`` are
stored as differences to the entry before, and every column byte by byte, the lowest bytes first:
that makes them a tenth of the JSON.
"""

import io
import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regal_jax.errors import RegalError
from regal_jax.graphs.computation_graph import ComputationGraph, RaggedRows
from regal_jax.graphs.files import write_atomically
from regal_jax.graphs.importers.roofline import A100, DeviceProfile, durations_us

FORMAT = "regal-shard/1"

_LABELS = {"kind": "ops", "phase": "ops", "role": "tensors"}
"""Columns of words, each stored as numbers into a vocabulary."""


def save_shard(graphs: Sequence[ComputationGraph], path: str | os.PathLike) -> None:
    """Writes graphs that know their FLOPs and bytes, atomically. Raises RegalError."""
    columns = {name: np.concatenate(parts) for name, parts in _columns(graphs).items()}
    strings: dict[str, Any] = {"format": FORMAT}
    for key in ("name", "family", "source"):
        strings[key] = [getattr(graph, key) for graph in graphs]
    for label in _LABELS:
        words = [word for graph in graphs for word in _words(graph, label)]
        strings[label], columns[label] = _vocabulary(words)
    text = np.frombuffer(json.dumps(strings).encode(), np.uint8)
    packed: dict[str, Any] = {name: _bytes_apart(column) for name, column in columns.items()}
    packed |= {f"{name}.type": np.array(str(column.dtype)) for name, column in columns.items()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, strings=text, **packed)
    write_atomically(path, lambda file: file.write(buffer.getvalue()))


def load_shard(
    path: str | os.PathLike, profile: DeviceProfile = A100
) -> Iterator[ComputationGraph]:
    """The graphs of a shard, one by one, timed on a device. RegalError for a damaged file."""
    try:
        with np.load(Path(path), allow_pickle=False) as file:
            strings = json.loads(bytes(file["strings"]))
            names = [name for name in file.files if f"{name}.type" in file.files]
            columns = {
                name: _bytes_together(file[name], str(file[f"{name}.type"])) for name in names
            }
    except OSError as error:
        raise RegalError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise RegalError(f"{path}: not a shard of graphs ({error})") from None
    if strings.get("format") != FORMAT:
        raise RegalError(f"{path}: format is {strings.get('format')!r}, expected {FORMAT!r}")
    yield from _graphs(strings, columns, profile)


def _columns(graphs: Iterable[ComputationGraph]) -> dict[str, list[np.ndarray]]:
    parts: dict[str, list[np.ndarray]] = {}
    for graph in graphs:
        if graph.flops is None or graph.bytes_accessed is None:
            raise RegalError(f"graph {graph.name!r}: its FLOPs and bytes aren't known")
        rows = graph.consumers
        columns = {
            "num_ops": np.array([graph.num_ops], np.int32),
            "num_tensors": np.array([graph.num_tensors], np.int32),
            "producer": np.diff(graph.producer, prepend=np.int32(0)),
            "size": graph.size,
            "persistent": graph.persistent.astype(np.uint8),
            "num_consumers": rows.lengths().astype(np.int32),
            "consumers": np.diff(rows.values, prepend=np.int32(0)),
            "flops": graph.flops,
            "bytes_accessed": graph.bytes_accessed,
            "workspace": graph.workspace,
        }
        for name, column in columns.items():
            parts.setdefault(name, []).append(column)
    return parts


def _graphs(
    strings: Mapping[str, Any], columns: Mapping[str, np.ndarray], profile: DeviceProfile
) -> Iterator[ComputationGraph]:
    ops = np.concatenate([[0], np.cumsum(columns["num_ops"], dtype=np.int64)])
    tensors = np.concatenate([[0], np.cumsum(columns["num_tensors"], dtype=np.int64)])
    ends = np.concatenate([[0], np.cumsum(columns["num_consumers"], dtype=np.int64)])
    duration = durations_us(columns["flops"], columns["bytes_accessed"], profile)
    words = {label: np.array(strings[label], object)[columns[label]] for label in _LABELS}
    machine = {"": {"device_profile": profile.name}}
    for index, name in enumerate(strings["name"]):
        op = slice(ops[index], ops[index + 1])
        tensor = slice(tensors[index], tensors[index + 1])
        first, last = ends[tensor.start], ends[tensor.stop]
        labels = {
            label: words[label][op if table == "ops" else tensor].tolist()
            for label, table in _LABELS.items()
        }
        num_ops = op.stop - op.start
        yield ComputationGraph(
            producer=np.cumsum(columns["producer"][tensor], dtype=np.int32),
            size=columns["size"][tensor],
            persistent=columns["persistent"][tensor].astype(bool),
            consumers=RaggedRows(
                ends[tensor.start : tensor.stop + 1] - first,
                np.cumsum(columns["consumers"][first:last], dtype=np.int32),
            ),
            duration=duration[op],
            workspace=columns["workspace"][op],
            machine_type=np.zeros(num_ops, np.int32),
            demand=np.ones(num_ops, np.int64),
            flops=columns["flops"][op],
            bytes_accessed=columns["bytes_accessed"][op],
            op_kinds=tuple(labels["kind"]),
            name=name,
            family=strings["family"][index],
            source=strings["source"][index],
            extra={
                **machine,
                "ops": {"phase": labels["phase"]},
                "tensors": {"role": labels["role"]},
            },
        )


def _words(graph: ComputationGraph, label: str) -> Sequence[str]:
    if label == "kind":
        return graph.op_kinds or ("",) * graph.num_ops
    count = graph.num_ops if _LABELS[label] == "ops" else graph.num_tensors
    return graph.extra.get(_LABELS[label], {}).get(label) or ("",) * count


def _vocabulary(words: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The distinct words, sorted, and each word's number."""
    distinct = sorted(set(words))
    number = {word: index for index, word in enumerate(distinct)}
    return distinct, np.array([number[word] for word in words], np.int32)


def _bytes_apart(column: np.ndarray) -> np.ndarray:
    """uint8[bytes an entry, entries]: first all lowest bytes, then the next, and so on."""
    return np.ascontiguousarray(column.view(np.uint8).reshape(len(column), -1).T)


def _bytes_together(apart: np.ndarray, dtype: str) -> np.ndarray:
    return np.ascontiguousarray(apart.T).reshape(-1).view(dtype)

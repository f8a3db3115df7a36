"""TensorFlow's CostGraphDef, whose text format is that of REGAL's released graphs.

A node becomes an op; each of its ``output_info`` a tensor of that size in bytes.
- ``alias_input_port`` >= 0: the output is that input's tensor (no tensor of its own). Omitted means
  0, as everywhere in this format, -1 none; omitted in a node without inputs, none.
- ``control_input``: one tensor of size 0 from that node, read by all that wait for it.
- ``compute_cost``: the duration, taken as microseconds.
- ``temporary_memory_size`` + ``host_temp_memory_size`` + ``device_temp_memory_size``: workspace.
- ``persistent_memory_size`` (+ ``host_``, ``device_persistent_memory_size``): a persistent tensor
  that nothing reads.
- ``is_final``: the node's outputs are persistent.
Ids are ids, not positions. Nothing is removed as dead. Other fields are ignored. A negative
size (TensorFlow's "unknown") is an error.
"""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regal_jax import registry
from regal_jax.errors import ImporterError, RegalError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.files import located, read_bytes, read_text
from regal_jax.graphs.importers.tensorflow.protobuf import parse


@registry.importer(".pbtxt", ".pb")
def from_cost_graph(path_or_text: str | os.PathLike) -> ComputationGraph:
    """The graph of a CostGraphDef: a path (``.pb`` is binary), or the text itself (with a ``{``).

    Raises:
      ImporterError: no such file, malformed text (with its line), dangling or negative values.
      GraphError: the nodes form a cycle.
    """
    is_text = isinstance(path_or_text, str) and "{" in path_or_text
    where, name = ("cost graph", "") if is_text else (str(path_or_text), Path(path_or_text).stem)
    data = str(path_or_text) if is_text else _read(Path(path_or_text))
    try:
        with located(where):
            return _convert(parse(data), name)
    except ImporterError as error:
        raise ImporterError(f"{where}: {error}") from None


def _read(path: Path) -> str | bytes:
    try:
        return read_bytes(path) if path.suffix == ".pb" else read_text(path)
    except RegalError as error:
        raise ImporterError(str(error)) from None


@dataclasses.dataclass(frozen=True)
class Node:
    """A node of a CostGraphDef; sizes in bytes, ``cost`` in microseconds.

    ``inputs`` are (node id, port); ``outputs`` are (size, aliased input or -1).
    """

    id: int
    name: str
    inputs: Sequence[tuple[int, int]]
    outputs: Sequence[tuple[int, int]]
    controls: Sequence[int]
    cost: int
    workspace: int
    persistent: int
    is_final: bool


def _convert(document: Any, name: str) -> ComputationGraph:
    nodes = [_node(message) for message in document.node]
    if not nodes:
        raise ImporterError("holds no node; is it a CostGraphDef?")
    position = {node.id: index for index, node in enumerate(nodes)}
    if len(position) < len(nodes):
        raise ImporterError("two nodes have the same id")
    by_id = {node.id: node for node in nodes}
    tensors = _Tensors()
    _add_outputs(tensors, nodes)
    for op, node in enumerate(nodes):
        for key in node.inputs:
            tensors.read(_resolve(by_id, node, key), op)
        for source in node.controls:
            _check_exists(by_id, node, source)
            tensors.read(tensors.control(source, position[source]), op)
    return tensors.build(nodes, name)


@dataclasses.dataclass
class _Tensors:
    """The tensors so far, found by (node id, port) or, for control, by (node id, -1)."""

    index: dict[tuple[int, int], int] = dataclasses.field(default_factory=dict)
    producer: list[int] = dataclasses.field(default_factory=list)
    size: list[int] = dataclasses.field(default_factory=list)
    persistent: list[bool] = dataclasses.field(default_factory=list)
    consumers: list[list[int]] = dataclasses.field(default_factory=list)

    def add(self, producer: int, size: int, persistent: bool = False) -> int:
        self.producer.append(producer)
        self.size.append(size)
        self.persistent.append(persistent)
        self.consumers.append([])
        return len(self.size) - 1

    def control(self, source: int, producer: int) -> tuple[int, int]:
        if (source, -1) not in self.index:
            self.index[source, -1] = self.add(producer, 0)
        return source, -1

    def read(self, key: tuple[int, int], op: int) -> None:
        self.consumers[self.index[key]].append(op)

    def build(self, nodes: Sequence[Node], name: str) -> ComputationGraph:
        return ComputationGraph.create(
            producer=self.producer,
            size=self.size,
            persistent=self.persistent,
            consumers=self.consumers,
            num_ops=len(nodes),
            duration=[node.cost for node in nodes],
            workspace=[node.workspace for node in nodes],
            op_names=tuple(node.name for node in nodes),
            name=name,
            source="tensorflow-cost-graph",
        )


def _add_outputs(tensors: _Tensors, nodes: Sequence[Node]) -> None:
    """One tensor an output that is no alias, and one for what a node keeps."""
    by_id = {node.id: node for node in nodes}
    for op, node in enumerate(nodes):
        for port, (size, alias) in enumerate(node.outputs):
            if alias < 0:
                tensors.index[node.id, port] = tensors.add(op, size, node.is_final)
        if node.persistent:
            tensors.add(op, node.persistent, True)
    for node in nodes:
        for port in range(len(node.outputs) if node.is_final else 0):
            tensors.persistent[tensors.index[_resolve(by_id, node, (node.id, port))]] = True


def _resolve(by_id: dict[int, Node], reader: Node, key: tuple[int, int]) -> tuple[int, int]:
    """Follows aliases to the output that owns the memory."""
    seen = set()
    while True:
        source, port = key
        _check_exists(by_id, reader, source)
        outputs = by_id[source].outputs
        if not 0 <= port < len(outputs):
            raise ImporterError(
                f"node {reader.name!r} reads output {port} of node {source}, which has "
                f"{len(outputs)}"
            )
        alias = outputs[port][1]
        if alias < 0:
            return key
        if key in seen or alias >= len(by_id[source].inputs):
            raise ImporterError(f"node {by_id[source].name!r}: output {port} aliases no input")
        seen.add(key)
        key = by_id[source].inputs[alias]


def _check_exists(by_id: dict[int, Node], reader: Node, source: int) -> None:
    if source not in by_id:
        raise ImporterError(f"node {reader.name!r} reads from node {source}, which is not there")


def _node(message: Any) -> Node:
    kinds = ("", "host_", "device_")
    return Node(
        id=message.id,
        name=message.name,
        inputs=[(info.preceding_node, info.preceding_port) for info in message.input_info],
        outputs=[_output(info, message) for info in message.output_info],
        controls=message.control_input,
        cost=_size(message, message.name, "compute_cost"),
        workspace=sum(
            _size(message, message.name, key)
            for key in ("temporary_memory_size", "host_temp_memory_size", "device_temp_memory_size")
        ),
        persistent=sum(
            _size(message, message.name, f"{kind}persistent_memory_size") for kind in kinds
        ),
        is_final=message.is_final,
    )


def _output(info: Any, node: Any) -> tuple[int, int]:
    omitted = not info.HasField("alias_input_port")
    alias = -1 if omitted and not node.input_info else info.alias_input_port
    return (0 if alias >= 0 else _size(info, node.name, "size")), alias


def _size(message: Any, label: str, field: str) -> int:
    value = getattr(message, field)
    if value < 0:
        raise ImporterError(f"node {label!r}: {field} is {value}; unknown sizes can't be scheduled")
    return value

"""Computation graphs as networkx graphs, and back.

What ``to_networkx`` writes and ``from_networkx`` reads, each fact in one place:

- nodes: ops ``0..O-1`` with ``duration``, ``workspace``, ``machine_type``, ``demand`` and, if
  known, ``name``, ``kind``, ``flops`` and ``bytes_accessed``;
- edges: one a (producer, tensor, consumer), whose key is the tensor, with the tensor's ``size``
  and ``persistent``, and ``position``, the consumer's place among the consumers of the tensor;
- graph attributes: ``name``, ``family``, ``source``, ``capacity``, ``extra`` as in
  ComputationGraph, and ``tensors``, a dict for the tensors without edges (no producer or no
  consumer), by tensor: ``{"producer", "size", "persistent", "consumers"}`` with op numbers.
"""

from collections.abc import Hashable, Iterable
from typing import Any

import networkx as nx

from regal_jax.errors import GraphError
from regal_jax.graphs.computation_graph import ComputationGraph

_OP_ATTRIBUTES = {"duration": 1.0, "workspace": 0, "machine_type": 0, "demand": 1}
_WORK = ("flops", "bytes_accessed")
_GRAPH_ATTRIBUTES = {"name": "", "family": "", "source": "", "capacity": None}


def to_networkx(graph: ComputationGraph) -> nx.MultiDiGraph:
    """The graph in networkx's terms (see the module's text); nothing is lost."""
    result = nx.MultiDiGraph(name=graph.name, family=graph.family, source=graph.source)
    if graph.capacity is not None:
        result.graph["capacity"] = graph.capacity.tolist()
    result.graph["extra"] = dict(graph.extra)
    result.graph["tensors"] = {}
    columns = {column: getattr(graph, column).tolist() for column in _OP_ATTRIBUTES}
    columns |= {"name": graph.op_names} if graph.op_names else {}
    columns |= {"kind": graph.op_kinds} if graph.op_kinds else {}
    for column in _WORK:
        if (known := getattr(graph, column)) is not None:
            columns[column] = known.tolist()
    for op in range(graph.num_ops):
        result.add_node(op, **{column: values[op] for column, values in columns.items()})
    for tensor in range(graph.num_tensors):
        _add_tensor(result, graph, tensor)
    return result


def from_networkx(nx_graph: nx.DiGraph) -> ComputationGraph:
    """A computation graph from any directed acyclic networkx graph.

    Reads what ``to_networkx`` writes; every attribute may be missing:

    - ops are the nodes, numbered by their labels if these are ``0..O-1``, else in the order of the
      graph and named by their labels; a missing op attribute takes the default of the file format;
    - a node with successors has one output tensor, consumed by them all; in a multigraph one
      for each key among its out-edges. A node without successors has an output only if it has a
      ``size`` or ``memory``;
    - the size of a tensor in bytes is the ``size`` of its edges, else the ``size`` or ``memory`` of
      its producer, else 0; it is persistent if its edges say so. Edges of one tensor must agree;
    - tensors keep their keys as numbers if these are ``0..T-1``, else they are numbered in order.

    Raises GraphError for an undirected graph, a cycle, or attributes a ComputationGraph rejects.
    """
    if not nx_graph.is_directed():
        raise GraphError("graph", "must be a directed networkx graph")
    op_of = _numbered(nx_graph.nodes)
    nodes = sorted(nx_graph.nodes, key=op_of.__getitem__)
    tensors = _tensors(nx_graph, op_of)
    attributes = {key: nx_graph.graph.get(key, value) for key, value in _GRAPH_ATTRIBUTES.items()}
    return ComputationGraph.create(
        num_ops=len(nodes),
        **{
            column: [nx_graph.nodes[node].get(column, default) for node in nodes]
            for column, default in _OP_ATTRIBUTES.items()
        },
        **{
            column: [tensor[column] for tensor in tensors]
            for column in ("producer", "size", "persistent", "consumers")
        },
        **{column: _op_numbers(nx_graph, nodes, column) for column in _WORK},
        op_names=_op_names(nx_graph, nodes),
        op_kinds=_op_strings(nx_graph, nodes, "kind"),
        extra=nx_graph.graph.get("extra", {}),
        **attributes,
    )


def _add_tensor(result: nx.MultiDiGraph, graph: ComputationGraph, tensor: int) -> None:
    producer, consumers = int(graph.producer[tensor]), graph.consumers.row(tensor).tolist()
    costs = {"size": int(graph.size[tensor]), "persistent": bool(graph.persistent[tensor])}
    if producer < 0 or not consumers:
        table = result.graph["tensors"]
        table[tensor] = {"producer": producer, "consumers": consumers, **costs}
        return
    for position, consumer in enumerate(consumers):
        result.add_edge(producer, consumer, key=tensor, position=position, **costs)


def _numbered(labels: Iterable[Hashable]) -> dict[Hashable, int]:
    """A number for each label: the label itself if the labels are 0..n-1, else its place."""
    labels = list(labels)
    integers = all(isinstance(label, int) and not isinstance(label, bool) for label in labels)
    if integers and set(labels) == set(range(len(labels))):
        labels = list(range(len(labels)))
    return {label: number for number, label in enumerate(labels)}


def _op_numbers(nx_graph: nx.DiGraph, nodes: list, key: str) -> Any:
    """A column that every node has, or None."""
    values = [nx_graph.nodes[node].get(key) for node in nodes]
    return None if not values or None in values else values


def _op_strings(nx_graph: nx.DiGraph, nodes: list, attribute: str) -> tuple[str, ...]:
    """One string a node, or nothing if no node has the attribute."""
    if not any(attribute in nx_graph.nodes[node] for node in nodes):
        return ()
    return tuple(str(nx_graph.nodes[node].get(attribute, "")) for node in nodes)


def _op_names(nx_graph: nx.DiGraph, nodes: list) -> tuple[str, ...]:
    names = _op_strings(nx_graph, nodes, "name")
    return names if names or nodes == list(range(len(nodes))) else tuple(map(str, nodes))


def _tensors(nx_graph: nx.DiGraph, op_of: dict[Hashable, int]) -> list[dict[str, Any]]:
    """The tensors in order, each with its producer, size, persistent flag and consumers."""
    by_edges = _tensors_of_edges(nx_graph, op_of)
    others = _tensors_of_table(nx_graph) + _results(nx_graph, op_of)
    keys = [key for _, key in by_edges] + [key for key, _ in others]
    tensors = list(by_edges.values()) + [tensor for _, tensor in others]
    if len(set(keys)) < len(keys):
        return tensors
    number_of = _numbered(keys)
    ordered = sorted(zip(keys, tensors, strict=True), key=lambda item: number_of[item[0]])
    return [tensor for _, tensor in ordered]


def _tensors_of_edges(nx_graph: nx.DiGraph, op_of: dict) -> dict[tuple, dict[str, Any]]:
    """Tensors by (producer, key); the one tensor of a node has the key ``(node,)`` in a DiGraph."""
    tensors: dict[tuple, dict[str, Any]] = {}
    positions: dict[tuple, list[tuple[float, int]]] = {}
    for producer, consumer, key, data in _keyed_edges(nx_graph):
        costs = _costs(nx_graph.nodes[producer], data)
        tensor = {"producer": op_of[producer], **costs}
        if tensors.setdefault((producer, key), tensor) != tensor:
            raise GraphError(f"edge {producer!r} -> {consumer!r}", f"tensor {key!r} has two costs")
        position = data.get("position", float("inf"))
        if not isinstance(position, int | float):
            raise GraphError(f"edge {producer!r} -> {consumer!r}", "position must be a number")
        positions.setdefault((producer, key), []).append((position, op_of[consumer]))
    for key, places in positions.items():
        tensors[key]["consumers"] = [op for _, op in sorted(places, key=lambda place: place[0])]
    return tensors


def _keyed_edges(nx_graph: nx.DiGraph) -> list[tuple[Hashable, Hashable, Hashable, dict]]:
    if nx_graph.is_multigraph():
        return list(nx_graph.edges(keys=True, data=True))
    return [(u, v, (u,), data) for u, v, data in nx_graph.edges(data=True)]


def _costs(node: dict[str, Any], edge: dict[str, Any]) -> dict[str, Any]:
    """The size and persistence of a tensor from the attributes of an edge and of its producer."""
    size = edge.get("size", node.get("size", node.get("memory", 0)))
    return {"size": size, "persistent": edge.get("persistent", False)}


def _tensors_of_table(nx_graph: nx.DiGraph) -> list[tuple[Hashable, dict[str, Any]]]:
    """The tensors of the graph attribute ``tensors``, as (key, tensor)."""
    defaults = {"producer": -1, "size": 0, "persistent": False, "consumers": []}
    table = nx_graph.graph.get("tensors", {})
    if not isinstance(table, dict) or not all(isinstance(row, dict) for row in table.values()):
        raise GraphError("tensors", "must be a dict with one dict of attributes per tensor")
    return [(key, defaults | row) for key, row in table.items()]


def _results(nx_graph: nx.DiGraph, op_of: dict) -> list[tuple[Hashable, dict[str, Any]]]:
    """One tensor for each node that has a size, but no successor to consume it."""
    return [
        ((node,), {"producer": op_of[node], "consumers": [], **_costs(data, {})})
        for node, data in nx_graph.nodes(data=True)
        if nx_graph.out_degree(node) == 0 and ("size" in data or "memory" in data)
    ]


__all__ = ["from_networkx", "to_networkx"]

"""Branches of If nodes that are known to run, written into the graph around them."""

from collections.abc import Iterable, Mapping

import onnx

from regal_jax.graphs.importers.onnx.folding import Values, subgraphs

VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")
"""Nodes whose output is their first input under another name."""


def inline_branches(graph: onnx.GraphProto, values: Values) -> bool:
    """Replaces, in place, each If whose branch is known by that branch's nodes; whether any was.

    Known are the branch of a constant condition, and the only one that computes something: where
    the other is made of constants and views alone, this one is what the If may cost. (What makes a
    condition that nothing else reads then leads to no output.)
    """
    live = [(node, _live_branch(node, values)) for node in graph.node if node.op_type == "If"]
    known = {node.output[0]: branch for node, branch in live if branch is not None}
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        if node.op_type == "If" and node.output[0] in known:
            _write_branch(graph, node, known[node.output[0]])
        else:
            graph.node.append(node)
    return bool(known)


def _live_branch(node: onnx.NodeProto, values: Values) -> onnx.GraphProto | None:
    branches = {attribute.name: attribute.g for attribute in node.attribute}
    then, orelse = branches["then_branch"], branches["else_branch"]
    if node.input[0] in values:
        return then if values[node.input[0]].item() else orelse
    if _computes(then) != _computes(orelse):
        return then if _computes(then) else orelse
    return None


def _computes(graph: onnx.GraphProto) -> bool:
    return any(node.op_type not in (*VIEWS, "Constant") for node in graph.node)


def _write_branch(graph: onnx.GraphProto, node: onnx.NodeProto, branch: onnx.GraphProto) -> None:
    """Appends a branch under names of its own, and its outputs under the If's."""
    own = [tensor.name for tensor in branch.initializer]
    own += [sparse.values.name for sparse in branch.sparse_initializer]
    own += [name for inner in branch.node for name in inner.output if name]
    names = {name: f"{node.output[0]}/{name}" for name in own}
    _rename(branch, names)
    for field in ("node", "initializer", "sparse_initializer", "value_info"):
        getattr(graph, field).extend(getattr(branch, field))
    for outer, inner in zip(node.output, branch.output, strict=True):
        graph.node.append(onnx.helper.make_node("Identity", [inner.name], [outer]))


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Gives the values of a graph, and the bodies in it, new names. Names are unique in nests."""
    for value in (*graph.initializer, *graph.value_info, *graph.output):
        value.name = names.get(value.name, value.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = names.get(sparse.values.name, sparse.values.name)
    for node in graph.node:
        node.input[:] = _renamed(node.input, names)
        node.output[:] = _renamed(node.output, names)
        for body in subgraphs(node):
            _rename(body, names)


def _renamed(values: Iterable[str], names: Mapping[str, str]) -> list[str]:
    return [names.get(value, value) for value in values]

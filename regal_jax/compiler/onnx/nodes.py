"""The main graph of an ONNX model as a computation graph with one op a node, in the file's order.

Names, sizes and views are the importer's (``importers.onnx.lowering``); a node that it leaves out
is here an op that makes nothing but a tensor of size 0. Who reads a view reads the viewed tensor
and that, and so waits for both.
"""

from collections.abc import Mapping

import onnx

from regal_jax.errors import ImporterError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.graph_builder import GraphBuilder
from regal_jax.graphs.importers.onnx import folding, shapes
from regal_jax.graphs.importers.onnx.folding import Types
from regal_jax.graphs.importers.onnx.lowering import Environment, Lowering, captured_names
from regal_jax.graphs.importers.onnx.types import Dimensions, value_bytes


def graph_of_nodes(model: onnx.ModelProto, dimensions: Mapping[str, int]) -> ComputationGraph:
    """The graph whose op ``i`` is the main graph's node ``i``. Raises ImporterError.

    A call of a local function is one op, whose inner values count 0. Unknown dimensions inside
    bodies count 1, unlike those of the main graph, which have to be given.
    """
    known = Dimensions(dimensions)
    inferred, values = shapes.infer_model(shapes.inline_functions(model), known)
    types = folding.graph_types(inferred.graph)
    _check_sizes(model.graph, types, dimensions)
    lowering = Lowering(GraphBuilder(), types, values, known)
    environment = lowering.add_parameters(inferred.graph, ())
    lowering.add_nodes(inferred.graph, environment)
    nodes = _Nodes(lowering.builder, environment)
    for node in model.graph.node:
        nodes.add(node)
    return nodes.finished(model.graph)


class _Nodes:
    """Nodes being written down.

    Attributes:
      lowered: the importer's builder, and ``environment``: its tensor for each name.
      builder: ours.
      tensors: our tensor for each of the importer's.
      made: tensors of size 0 of the nodes that make a name and no memory for it.
    """

    def __init__(self, lowered: GraphBuilder, environment: Environment):
        self.lowered = lowered
        self.environment = environment
        self.builder = GraphBuilder()
        self.tensors: dict[int, int] = {}
        self.made: dict[str, int] = {}

    def add(self, node: onnx.NodeProto) -> None:
        read = names_read(node)
        inputs = [self._existing(self.environment[name]) for name in read]
        inputs += [self.made[name] for name in read if name in self.made]
        written = {name: self.environment[name] for name in node.output if name}
        new = [base for base in dict.fromkeys(written.values()) if self._is_new(base)]
        op = len(self.builder.ops)
        outputs = self.builder.add_op(
            node.op_type,
            inputs,
            [self.lowered.tensors[base].size for base in new],
            name=node.name,
            workspace=max((self._workspace(base) for base in new), default=0),
        )
        self.tensors.update(zip(new, outputs, strict=True))
        for name in (name for name, base in written.items() if base not in new):
            self.made[name] = self.builder.add_control(op)

    def finished(self, graph: onnx.GraphProto) -> ComputationGraph:
        for info in graph.output:
            tensor = self._existing(self.environment[info.name])
            self.builder.tensors[tensor].persistent = True
        return self.builder.build(name=graph.name)

    def _existing(self, base: int) -> int:
        """Our tensor for one that a node has made, or that exists from the start."""
        if base not in self.tensors:
            draft = self.lowered.tensors[base]
            self.tensors[base] = self.builder.add_parameter(draft.size, name=draft.name)
        return self.tensors[base]

    def _is_new(self, base: int) -> bool:
        return base not in self.tensors and self.lowered.tensors[base].producer >= 0

    def _workspace(self, base: int) -> int:
        return self.lowered.ops[self.lowered.tensors[base].producer].workspace


def names_read(node: onnx.NodeProto) -> list[str]:
    """The distinct names that a node needs: its inputs, and what its bodies name outside."""
    captured = [name for body in folding.subgraphs(node) for name in captured_names(body)]
    return list(dict.fromkeys(name for name in (*node.input, *captured) if name))


def _check_sizes(graph: onnx.GraphProto, inferred: Types, given: Mapping[str, int]) -> None:
    """Raises ImporterError if a dimension of the graph's own values isn't known."""
    declared = folding.graph_types(graph)
    types = {info.name: declared.get(info.name) for info in graph.input}
    types |= {name: inferred.get(name) for name in folding.produced(graph)}
    unknown: dict[str, str] = {}  # dimension -> the first tensor that has it
    for name, value in types.items():
        dimensions = Dimensions(given)
        value_bytes(name, value, dimensions)
        unknown = {**dict.fromkeys(dimensions.assumed, name), **unknown}
    if unknown:
        places = [f"{key!r} of {name!r}" for key, name in unknown.items()]
        raise ImporterError(
            f"unknown dimensions: {', '.join(places[:5])}{' ...' if places[5:] else ''}; "
            f"give their sizes, such as dimensions={{{next(iter(unknown))!r}: 8}}"
        )

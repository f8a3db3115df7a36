"""The main graph of an ONNX model as a computation graph with one op a node, in the file's order.

Names, sizes and views are the importer's (``importers.onnx.lowering``); a node that it leaves out
is here an op that makes nothing but a tensor of size 0. Who reads a view reads the viewed tensor
and that, and so waits for both.
"""

from collections.abc import Mapping

import onnx

from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.graph_builder import GraphBuilder
from regal_jax.graphs.importers.onnx import folding, shapes
from regal_jax.graphs.importers.onnx.dimensions import Dimensions
from regal_jax.graphs.importers.onnx.lowering import Environment, Lowering, captured_names


def graph_of_nodes(model: onnx.ModelProto, dimensions: Dimensions) -> ComputationGraph:
    """The graph whose op ``i`` is the main graph's node ``i``. Raises ImporterError.

    A call of a local function is one op, whose inner values count 0.
    """
    inferred, values = shapes.infer_model(shapes.inline_functions(model), dimensions)
    types = folding.graph_types(inferred.graph)
    lowering = Lowering(GraphBuilder(), types, values, dimensions)
    environment = lowering.add_parameters(inferred.graph, ())
    lowering.add_nodes(inferred.graph, environment)
    dimensions.check_complete()
    dimensions.check_used()
    nodes = _Nodes(lowering.builder, environment)
    for node in model.graph.node:
        nodes.add(node)
    return nodes.finished(model.graph, lowering.hidden)


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
        known = (name for name in node.output if name in self.environment)  # no unread masks
        written = {name: self.environment[name] for name in known}
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

    def finished(self, graph: onnx.GraphProto, hidden: Mapping[str, int]) -> ComputationGraph:
        for info in graph.output:
            tensor = self._existing(self.environment[info.name])
            self.builder.tensors[tensor].persistent = True
        extra = {"": {"hidden_ops": dict(hidden)}} if hidden else {}
        return self.builder.build(name=graph.name, extra=extra)

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

"""The nodes of an ONNX graph, written into a GraphBuilder in their order."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import onnx

from regal_jax.errors import ImporterError
from regal_jax.graphs.importers.graph_builder import GraphBuilder
from regal_jax.graphs.importers.onnx import types as onnx_types
from regal_jax.graphs.importers.onnx.branches import VIEWS
from regal_jax.graphs.importers.onnx.dimensions import Dimensions
from regal_jax.graphs.importers.onnx.flops import node_flops
from regal_jax.graphs.importers.onnx.folding import Types, Values, graph_types, subgraphs

Environment = dict[str, int]
"""The tensor, by its number in the builder, that a name stands for."""


@dataclasses.dataclass
class Lowering:
    """An ONNX graph being written into a builder.

    Attributes:
      types: what is known of each value of this graph and of the graphs around it.
      values: the small constants, by name.
      unknown: names of the values in bodies whose size is unknown; there they count 0 bytes.
      hidden: how many ops the bodies of a node have, for the nodes with bodies.
      is_body: whether this is a body rather than the main graph.
      read: names that something reads.
    """

    builder: GraphBuilder
    types: Types
    values: Values
    dimensions: Dimensions
    unknown: list[str] = dataclasses.field(default_factory=list)
    hidden: dict[str, int] = dataclasses.field(default_factory=dict)
    is_body: bool = False
    read: set[str] = dataclasses.field(default_factory=set)

    def add_parameters(self, graph: onnx.GraphProto, required: Sequence[str]) -> Environment:
        """Inputs and initializers, each once; those named in ``required`` are never dropped."""
        sizes = {tensor.name: onnx_types.initializer_bytes(tensor) for tensor in graph.initializer}
        for sparse in graph.sparse_initializer:
            sizes[sparse.values.name] = onnx_types.sparse_bytes(sparse)
        names = dict.fromkeys([*(info.name for info in graph.input), *sizes])
        return {
            name: self.builder.add_parameter(
                sizes[name] if name in sizes else self.size(name, "graph input"),
                name=name,
                required=name in required,
            )
            for name in names
        }

    def add_nodes(self, graph: onnx.GraphProto, environment: Environment) -> list[int]:
        """Every node of the graph; returns the tensors of its outputs."""
        self.read = set(_names_read(graph))
        for node in graph.node:
            outputs = self._node(node, environment)
            names = [name for name in node.output if name]
            environment.update(zip(names, outputs, strict=False))
        return [_look_up(environment, info.name, "the graph") for info in graph.output]

    def size(self, name: str, role: str) -> int:
        """Bytes of a value, by its type."""
        size = onnx_types.value_bytes(name, self.types.get(name), self.dimensions)
        if size is None and self.is_body:
            self.unknown.append(name)
            return 0
        if size is None:
            raise ImporterError(
                f"the shape of {name!r} ({role}) can't be inferred; add it to the model's "
                "value_info, or simplify the model first (for example with onnxsim)"
            )
        return size

    def _node(self, node: onnx.NodeProto, environment: Environment) -> Sequence[int]:
        label = node.name or f"a {node.op_type} node"
        inputs = [_look_up(environment, name, label) for name in node.input if name]
        if node.op_type == "Constant":
            size = onnx_types.constant_bytes(node)
            return [self.builder.add_parameter(size, name=node.output[0])]
        if _renames(node, self.values, self.read):
            return inputs[:1]
        captured = [name for body in subgraphs(node) for name in captured_names(body)]
        inputs += [_look_up(environment, name, label) for name in captured]
        return self._op(node, inputs, environment)

    def _op(
        self, node: onnx.NodeProto, inputs: Sequence[int], environment: Environment
    ) -> Sequence[int]:
        names = [name for name in node.output if name]
        flops, workspace = self._cost(node, environment)
        return self.builder.add_op(
            node.op_type,
            inputs,
            [self._output_size(node, name, inputs) for name in names],
            name=node.name,
            flops=flops,
            workspace=workspace,
            output_names=names,
        )

    def _output_size(self, node: onnx.NodeProto, name: str, inputs: Sequence[int]) -> int:
        """Bytes of an output; exact sums for the ops that only pack, split or permute."""
        if node.op_type in _SUMS and not subgraphs(node):
            counted = inputs[: _SUMS[node.op_type] or None]
            return sum(self.builder.tensors[tensor].size for tensor in counted)
        return self.size(name, f"an output of a {node.op_type} node")

    def _cost(self, node: onnx.NodeProto, environment: Environment) -> tuple[float, int]:
        """FLOPs and workspace [bytes] of a node."""
        bodies = subgraphs(node)
        if not bodies:
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            inputs = [self._shape(name) for name in node.input]
            outputs = [self._shape(name) for name in node.output]
            return node_flops(node.op_type, inputs, outputs, attributes), 0
        costs = [self._body_cost(body, environment) for body in bodies]
        self.hidden[node.name or node.output[0]] = sum(cost[2] for cost in costs)
        flops = max(cost[0] for cost in costs) * self._iterations(node)
        return flops, max(cost[1] for cost in costs)

    def _shape(self, name: str) -> Sequence[int]:
        value = self.types.get(name)
        if not onnx_types.has_rank(value):
            return ()
        return onnx_types.tensor_shape(name, value, self.dimensions)

    def _body_cost(self, body: onnx.GraphProto, environment: Environment) -> tuple[float, int, int]:
        """FLOPs, workspace [bytes] and ops of a body, with the bodies in it."""
        builder, types = GraphBuilder(), {**self.types, **graph_types(body)}
        dimensions = self.dimensions.inside_bodies()
        inner = Lowering(builder, types, self.values, dimensions, self.unknown, is_body=True)
        names = inner.add_parameters(body, ())
        for name in captured_names(body):
            outer = self.builder.tensors[environment[name]]
            names[name] = builder.add_parameter(outer.size, name=name)
        pruned = builder.prune(inner.add_nodes(body, names))
        num_ops = len(pruned.ops) + sum(inner.hidden.values())
        return pruned.total_flops(), pruned.body_workspace(), num_ops

    def _iterations(self, node: onnx.NodeProto) -> int:
        """Trip count where it is known, else 1."""
        if node.op_type == "Loop" and node.input[0] in self.values:
            return max(int(self.values[node.input[0]].item()), 0)
        if node.op_type == "Scan":
            attributes = {a.name: a for a in node.attribute}
            axes = attributes["scan_input_axes"].ints if "scan_input_axes" in attributes else []
            shape = self._shape(node.input[len(node.input) - attributes["num_scan_inputs"].i])
            return shape[axes[0] if axes else 0] if shape else 1
        return 1


def captured_names(graph: onnx.GraphProto) -> list[str]:
    """The outer values that a body reads, in order of first use."""
    own = {info.name for info in graph.input} | {t.name for t in graph.initializer}
    own |= {sparse.values.name for sparse in graph.sparse_initializer}
    own |= {name for node in graph.node for name in node.output}
    return list(dict.fromkeys(name for name in _names_read(graph) if name and name not in own))


def _names_read(graph: onnx.GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield from node.input
        for body in subgraphs(node):
            yield from captured_names(body)
    yield from (info.name for info in graph.output)


def _renames(node: onnx.NodeProto, values: Values, read: set[str]) -> bool:
    """Whether a node's output is its first input under another name."""
    if node.op_type == "Dropout":
        return _is_inference_dropout(node, values) and read.isdisjoint(node.output[1:])
    return node.op_type in VIEWS


def _is_inference_dropout(node: onnx.NodeProto, values: Values) -> bool:
    training = node.input[2] if len(node.input) > 2 else ""
    return not training or (training in values and not values[training].item())


def _look_up(environment: Mapping[str, int], name: str, reader: str) -> int:
    if name not in environment:
        raise ImporterError(f"{reader} reads {name!r}, which nothing before it makes")
    return environment[name]


_SUMS: Mapping[str, int] = MappingProxyType(
    {
        "SequenceConstruct": 0,
        "SequenceInsert": 2,
        "SequenceErase": 1,
        "SequenceEmpty": 0,
        "SplitToSequence": 1,
        "ConcatFromSequence": 1,
        "Optional": 0,
        "OptionalGetElement": 1,
        "ReverseSequence": 1,
        "Transpose": 1,
    }
)
"""Ops whose output weighs what their first inputs do together (0: all inputs). An erased element
counts still: an upper bound."""

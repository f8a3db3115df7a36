"""Types and constants of an ONNX graph, node by node: folding, branches and loops."""

import math
from collections.abc import Iterable, Iterator

import numpy as np
import onnx
import onnx.reference

from regal_jax.graphs.importers.onnx.types import has_rank, is_complete, tensor_dims, tensor_type

FOLDED_ELEMENTS = 4096
"""Constants up to this many elements are folded: shapes, axes and the like."""

Types = dict[str, onnx.TypeProto]
Values = dict[str, np.ndarray]


def graph_types(graph: onnx.GraphProto) -> Types:
    """The known types of a graph's own values, by name."""
    types: Types = {}
    for tensor in graph.initializer:
        types[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    for info in (*graph.input, *graph.value_info, *graph.output):
        if not is_complete(types.get(info.name)) and info.type.WhichOneof("value"):
            types[info.name] = info.type
    return types


def subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The bodies or branches of a node."""
    nested = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    return nested + [graph for attribute in node.attribute for graph in attribute.graphs]


def produced(graph: onnx.GraphProto) -> Iterator[str]:
    """The names that a graph's own nodes make."""
    return (name for node in graph.node for name in node.output if name)


def store(graph: onnx.GraphProto, types: Types) -> None:
    """Writes what is known back, for the next round of inference."""
    declared = {info.name for info in (*graph.input, *graph.output)}
    del graph.value_info[:]
    for name in dict.fromkeys(produced(graph)):
        if name in types and name not in declared:
            graph.value_info.append(onnx.helper.make_value_info(name, types[name]))


def constants(graph: onnx.GraphProto) -> Values:
    """The small constants of a graph: initializers that are not inputs."""
    inputs = {info.name for info in graph.input}
    stored = (t for t in graph.initializer if t.name not in inputs and is_small(t))
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in stored}


def is_small(tensor: onnx.TensorProto) -> bool:
    """Whether a stored tensor can be folded: few elements, and in this file."""
    external = tensor.data_location == onnx.TensorProto.EXTERNAL
    return not external and math.prod(tensor.dims) <= FOLDED_ELEMENTS


def walk(model: onnx.ModelProto, graph: onnx.GraphProto, types: Types, values: Values) -> None:
    """Infers nodes one by one, in order, folding those whose inputs are all constant.

    Adds to ``types`` and ``values``, and to the value_info of the bodies it enters.
    """
    for node in graph.node:
        if node.op_type == "If" and node.input[0] in values:
            _take_branch(model, node, types, values)
        elif node.op_type in ("Loop", "Scan"):
            _enter_loop(model, node, types, values)
        elif not subgraphs(node):
            if not all(is_complete(types.get(name)) for name in node.output if name):
                _infer_node(model, node, types, values)
            folded = _fold(model, node, types, values)
            values.update(folded)
            types.update({name: _type_of(value) for name, value in folded.items()})


def _take_branch(
    model: onnx.ModelProto, node: onnx.NodeProto, types: Types, values: Values
) -> None:
    """Types of an If whose condition is known: those of the branch that runs."""
    wanted = "then_branch" if values[node.input[0]].item() else "else_branch"
    branch = next(attribute.g for attribute in node.attribute if attribute.name == wanted)
    inner_types, inner_values = {**types, **graph_types(branch)}, {**values, **constants(branch)}
    walk(model, branch, inner_types, inner_values)
    store(branch, inner_types)
    for outer, inner in zip(node.output, branch.output, strict=False):
        if inner.name in inner_types:
            types[outer] = inner_types[inner.name]
        if inner.name in inner_values:
            values[outer] = inner_values[inner.name]


def _enter_loop(model: onnx.ModelProto, node: onnx.NodeProto, types: Types, values: Values) -> None:
    """Types of a Loop or Scan whose body keeps the types of its state (by induction, always)."""
    body = subgraphs(node)[0]
    entering = _loop_inputs(node, types)
    if len(entering) != len(body.input) or not all(map(is_complete, entering)):
        return
    inner = {**types, **graph_types(body)}
    inner |= {info.name: value for info, value in zip(body.input, entering, strict=True)}
    walk(model, body, inner, {**values, **constants(body)})
    store(body, inner)
    skipped = 1 if node.op_type == "Loop" else 0  # the condition
    leaving = [inner.get(info.name) for info in body.output][skipped:]
    states = entering[2:] if node.op_type == "Loop" else entering[: _num_states(node)]
    if all(map(_same_type, states, leaving)):
        stacked = [_stacked(value, _scan_length(node, types)) for value in leaving[len(states) :]]
        found = zip(node.output, [*states, *stacked], strict=False)
        types.update({name: value for name, value in found if value and not _known(types, name)})


def _loop_inputs(node: onnx.NodeProto, types: Types) -> list[onnx.TypeProto | None]:
    """What a body's inputs are in the first iteration."""
    outer = [types.get(name) for name in node.input]
    if node.op_type == "Loop":
        count = onnx.helper.make_tensor_type_proto(onnx.TensorProto.INT64, ())
        condition = onnx.helper.make_tensor_type_proto(onnx.TensorProto.BOOL, ())
        return [count, condition, *outer[2:]]
    if any(attribute.name == "scan_input_axes" for attribute in node.attribute):
        return []
    states = _num_states(node)
    return [*outer[:states], *(_sliced(value) for value in outer[states:])]


def _num_states(node: onnx.NodeProto) -> int:
    scanned = next(a.i for a in node.attribute if a.name == "num_scan_inputs")
    return len(node.input) - scanned


def _scan_length(node: onnx.NodeProto, types: Types) -> int | None:
    """Iterations of a Scan; None for a Loop, which may stop early."""
    if node.op_type == "Loop":
        return None
    return tensor_dims(types[node.input[-1]])[0].dim_value


def _sliced(value: onnx.TypeProto | None) -> onnx.TypeProto | None:
    if not is_complete(value) or not tensor_dims(value):
        return None
    dims = [dim.dim_value for dim in tensor_dims(value)[1:]]
    return onnx.helper.make_tensor_type_proto(tensor_type(value).elem_type, dims)


def _stacked(value: onnx.TypeProto | None, length: int | None) -> onnx.TypeProto | None:
    if not is_complete(value):
        return None
    dims = [length, *(dim.dim_value for dim in tensor_dims(value))]
    return onnx.helper.make_tensor_type_proto(tensor_type(value).elem_type, dims)


def _same_type(first: onnx.TypeProto | None, second: onnx.TypeProto | None) -> bool:
    if not (is_complete(first) and is_complete(second)):
        return False
    return _signature(first) == _signature(second)


def _signature(value: onnx.TypeProto | None) -> tuple[int, ...]:
    return tensor_type(value).elem_type, *(dim.dim_value for dim in tensor_dims(value))


def _known(types: Types, name: str) -> bool:
    return is_complete(types.get(name))


def _reduced(node: onnx.NodeProto, types: Types) -> onnx.TypeProto | None:
    """The rank of a reduction over axes that are computed: its dimensions stay unknown."""
    value, axes = types.get(node.input[0]), types.get(node.input[-1])
    if not (has_rank(value) and is_complete(axes)):
        return None
    keep = next((a.i for a in node.attribute if a.name == "keepdims"), 1)
    removed = 0 if keep else math.prod(dim.dim_value for dim in tensor_dims(axes))
    dims = [None] * (len(tensor_dims(value)) - removed)
    return onnx.helper.make_tensor_type_proto(tensor_type(value).elem_type, dims)


def _fold(model: onnx.ModelProto, node: onnx.NodeProto, types: Types, values: Values) -> Values:
    """The small constant outputs of a node, or nothing."""
    if node.op_type in ("Shape", "Size") and is_complete(types.get(node.input[0])):
        shape = [dim.dim_value for dim in tensor_dims(types[node.input[0]])]
        feeds = {node.input[0]: np.broadcast_to(np.uint8(0), shape)}
    elif node.op_type.startswith(_RANDOM) or any(_is_large(types.get(n)) for n in node.output):
        return {}
    elif all(name in values for name in node.input if name):
        feeds = {name: values[name] for name in node.input if name}
    else:
        return {}
    results = zip(node.output, _evaluate(model, node, feeds), strict=False)
    return {n: v for n, v in results if isinstance(v, np.ndarray) and v.size <= FOLDED_ELEMENTS}


_RANDOM = ("Random", "Bernoulli", "Multinomial")


def _is_large(value: onnx.TypeProto | None) -> bool:
    if not is_complete(value):
        return False
    return math.prod(dim.dim_value for dim in tensor_dims(value)) > FOLDED_ELEMENTS


def _evaluate(model: onnx.ModelProto, node: onnx.NodeProto, feeds: Values) -> Iterable:
    """Runs one node with onnx's reference implementation; nothing where it can't."""
    inputs = [onnx.helper.make_value_info(name, _type_of(feeds[name])) for name in feeds]
    outputs = [onnx.helper.make_value_info(n, onnx.TypeProto()) for n in node.output if n]
    graph = onnx.helper.make_graph([node], "fold", inputs, outputs)
    single = onnx.helper.make_model(graph, opset_imports=model.opset_import)
    try:
        results = onnx.reference.ReferenceEvaluator(single).run(None, dict(feeds))
    except Exception:  # an op the reference does not know: its value stays unknown
        return ()
    return [np.asarray(value) if np.isscalar(value) else value for value in results]


def _infer_node(model: onnx.ModelProto, node: onnx.NodeProto, types: Types, values: Values) -> None:
    """Adds what onnx infers of one node's outputs when it knows the constants' values."""
    if not all(name in types for name in node.input if name):
        return
    constants = {name: values[name] for name in node.input if name in values}
    versions = {opset.domain: opset.version for opset in model.opset_import}
    try:
        schema = onnx.defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
        inferred = onnx.shape_inference.infer_node_outputs(
            schema,
            node,
            {name: types[name] for name in node.input if name},
            {name: onnx.numpy_helper.from_array(value) for name, value in constants.items()},
            opset_imports=list(model.opset_import),
            ir_version=model.ir_version,
        )
    except Exception:  # an unknown op or one that can't be inferred: its type stays unknown
        return
    types.update({n: t for n, t in inferred.items() if has_rank(t) and not has_rank(types.get(n))})
    types.update({n: t for n, t in inferred.items() if is_complete(t)})
    if node.op_type.startswith("Reduce") and not has_rank(types.get(node.output[0])):
        rank = _reduced(node, types)
        types.update({node.output[0]: rank} if rank else {})


def _type_of(value: np.ndarray) -> onnx.TypeProto:
    element = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    return onnx.helper.make_tensor_type_proto(element, value.shape)

"""The type and shape of every value of an ONNX model: inference, then constant folding."""

import onnx
import onnx.inliner

from regal_jax.errors import ImporterError
from regal_jax.graphs.importers.onnx.dimensions import Dimensions
from regal_jax.graphs.importers.onnx.folding import (
    Types,
    Values,
    constants,
    graph_types,
    is_small,
    produced,
    store,
    subgraphs,
    walk,
)
from regal_jax.graphs.importers.onnx.types import (
    has_rank,
    is_complete,
    tensor_dims,
    tensor_shape,
    value_bytes,
)

_ROUNDS = 3


def infer_model(model: onnx.ModelProto, dimensions: Dimensions) -> tuple[onnx.ModelProto, Values]:
    """A model without large weights whose value_info is as complete as can be, and its constants.

    Unknown dimensions of the inputs get their sizes, and onnx's own shape inference alternates with
    a walk that folds constants and infers node by node with their values. Shapes that depend on
    data stay unknown. Raises ImporterError: for all inputs' dimensions without a size at once.
    """
    model = _without_weights(model)
    _forget_unknown(model.graph)
    _size_inputs(model.graph, dimensions)
    values: Values = {}
    for _ in range(_ROUNDS):
        model = _inferred(model)
        types = graph_types(model.graph)
        before = _knowledge(types)
        complete = all(is_complete(types.get(name)) for name in produced(model.graph))
        if complete and not any(node.op_type == "If" for node in model.graph.node):
            break  # else the values of conditions are worth a walk
        values = constants(model.graph)
        walk(model, model.graph, types, values)
        if _knowledge(types) == before:
            break
        store(model.graph, types)
    return model, values or constants(model.graph)


def inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its local functions written out. Raises ImporterError."""
    if not model.functions:
        return model
    try:
        return onnx.inliner.inline_local_functions(model)
    except Exception as error:
        raise ImporterError(f"its functions can't be inlined: {first_line(error)}") from None


def first_line(error: Exception) -> str:
    """The first line of an error's message, or its type."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which large or external initializers are inputs: inference needs no data."""
    small = onnx.ModelProto(ir_version=max(model.ir_version, 4))
    small.opset_import.extend(model.opset_import)
    graph, source = small.graph, model.graph
    graph.name = source.name or "graph"
    for field in ("node", "output", "value_info", "sparse_initializer"):
        getattr(graph, field).extend(getattr(source, field))
    large = {tensor.name for tensor in source.initializer if not is_small(tensor)}
    graph.input.extend(info for info in source.input if info.name not in large)
    for tensor in source.initializer:
        if tensor.name not in large:
            graph.initializer.append(tensor)
        else:
            value = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
            graph.input.append(onnx.helper.make_value_info(tensor.name, value))
    return small


def _forget_unknown(graph: onnx.GraphProto) -> None:
    """Clears dimensions that are -1 or "?", which is how some exporters say unknown."""
    for info in (*graph.input, *graph.output, *graph.value_info):
        for dim in tensor_dims(info.type):
            if dim.dim_value < 0 or dim.dim_param == "?":
                dim.Clear()
    for node in graph.node:
        for body in subgraphs(node):
            _forget_unknown(body)


def _size_inputs(graph: onnx.GraphProto, dimensions: Dimensions) -> None:
    """Gives the inputs' unknown dimensions their sizes, and equal symbols elsewhere the same."""
    stored = {tensor.name for tensor in graph.initializer}
    inputs = [info for info in graph.input if info.name not in stored]
    for info in inputs:
        value_bytes(info.name, info.type, dimensions)
    dimensions.check_complete()
    sizes = dict(dimensions.given)
    for info in inputs:
        shape = tensor_shape(info.name, info.type, dimensions)
        for dim, size in zip(tensor_dims(info.type), shape, strict=True):
            sizes.setdefault(dim.dim_param, size)
            dim.dim_value = size
    for info in (*graph.output, *graph.value_info):
        for dim in tensor_dims(info.type):
            if dim.dim_param and dim.dim_param in sizes:
                dimensions.used.add(dim.dim_param)
                dim.dim_value = sizes[dim.dim_param]


def _inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    try:
        return onnx.shape_inference.infer_shapes(model, strict_mode=False, data_prop=True)
    except Exception as error:
        raise ImporterError(f"onnx can't infer its shapes: {first_line(error)}") from None


def _knowledge(types: Types) -> int:
    """Grows whenever a rank or a whole shape becomes known."""
    return sum(has_rank(value) + is_complete(value) for value in types.values())

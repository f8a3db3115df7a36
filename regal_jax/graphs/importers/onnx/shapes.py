"""The type and shape of every value of an ONNX model: inference, then constant folding."""

import onnx
import onnx.inliner

from regal_jax.errors import ImporterError
from regal_jax.graphs.importers.onnx.folding import (
    Types,
    Values,
    constants,
    graph_types,
    is_small,
    produced,
    store,
    walk,
)
from regal_jax.graphs.importers.onnx.types import Dimensions, has_rank, is_complete, tensor_dims

_ROUNDS = 3


def infer_model(model: onnx.ModelProto, dimensions: Dimensions) -> tuple[onnx.ModelProto, Values]:
    """A model without large weights whose value_info is as complete as can be, and its constants.

    Local functions are inlined, symbolic dimensions of the inputs get their sizes, and onnx's own
    shape inference alternates with a walk that folds constants and infers node by node with their
    values. Shapes that depend on data stay unknown. Raises ImporterError.
    """
    model = _without_weights(model)
    _size_inputs(model.graph, dimensions)
    values: Values = {}
    for _ in range(_ROUNDS):
        model = _inferred(model)
        types = graph_types(model.graph)
        before = _knowledge(types)
        if all(is_complete(types.get(name)) for name in produced(model.graph)):
            break
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
    for field in ("node", "output", "value_info", "sparse_initializer", "input"):
        getattr(graph, field).extend(getattr(source, field))
    declared = {info.name for info in graph.input}
    for tensor in source.initializer:
        if is_small(tensor):
            graph.initializer.append(tensor)
        elif tensor.name not in declared:
            value = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
            graph.input.append(onnx.helper.make_value_info(tensor.name, value))
    return small


def _size_inputs(graph: onnx.GraphProto, dimensions: Dimensions) -> None:
    """Gives the inputs' unknown dimensions their sizes, and equal symbols elsewhere the same."""
    for info in graph.input:
        for axis, dim in enumerate(tensor_dims(info.type)):
            if not dim.HasField("dim_value"):
                dim.dim_value = dimensions.size(dim.dim_param, f"{info.name}[{axis}]")
    known = {**dimensions.assumed, **dimensions.given}
    for info in (*graph.output, *graph.value_info):
        for dim in tensor_dims(info.type):
            if dim.dim_param in known:
                dim.dim_value = known[dim.dim_param]


def _inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    try:
        return onnx.shape_inference.infer_shapes(model, strict_mode=False, data_prop=True)
    except Exception as error:
        raise ImporterError(f"onnx can't infer its shapes: {first_line(error)}") from None


def _knowledge(types: Types) -> int:
    """Grows whenever a rank or a whole shape becomes known."""
    return sum(has_rank(value) + is_complete(value) for value in types.values())

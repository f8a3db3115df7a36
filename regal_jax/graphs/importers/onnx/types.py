"""What the values of an ONNX model weigh."""

import math

import onnx

from regal_jax.errors import ImporterError
from regal_jax.graphs.importers.onnx.dimensions import Dimensions

STRING_BYTES = 16
"""Bytes counted for one string, whatever its length: a pointer and a length."""


def is_complete(value: onnx.TypeProto | None) -> bool:
    """Whether a type is a tensor whose dimensions are all numbers."""
    return has_rank(value) and all(dim.HasField("dim_value") for dim in tensor_dims(value))


def has_rank(value: onnx.TypeProto | None) -> bool:
    """Whether a type is a tensor of known element type and rank."""
    tensor = tensor_type(value)
    return tensor is not None and tensor.elem_type != 0 and tensor.HasField("shape")


def tensor_type(value: onnx.TypeProto | None):
    """The tensor or sparse tensor type inside, or None."""
    kind = value.WhichOneof("value") if value is not None else None
    return getattr(value, kind) if kind in ("tensor_type", "sparse_tensor_type") else None


def tensor_dims(value: onnx.TypeProto | None):
    """The dimension messages of a tensor type of known rank."""
    tensor = tensor_type(value)
    return tensor.shape.dim if tensor is not None else ()


def tensor_shape(
    name: str, value: onnx.TypeProto | None, dimensions: Dimensions
) -> tuple[int, ...]:
    """The shape of a tensor of known rank; unknown dimensions as ``dimensions`` says."""
    return tuple(
        dim.dim_value if dim.HasField("dim_value") else dimensions.size(dim.dim_param, name, axis)
        for axis, dim in enumerate(tensor_dims(value))
    )


def value_bytes(name: str, value: onnx.TypeProto | None, dimensions: Dimensions) -> int | None:
    """Bytes of a value of this type, or None where not even its rank is known.

    Sequences and maps: bytes of an element times their length, as ``dimensions`` says.
    """
    if value is None:
        return None
    kind = value.WhichOneof("value")
    if kind == "optional_type":
        return value_bytes(name, value.optional_type.elem_type, dimensions)
    if kind == "sequence_type":
        inner = value_bytes(name, value.sequence_type.elem_type, dimensions)
        return None if inner is None else inner * dimensions.size("", name, "length")
    if kind == "map_type":
        inner = value_bytes(name, value.map_type.value_type, dimensions) or 0
        entry = inner + elements_bytes(1, value.map_type.key_type)
        return entry * dimensions.size("", name, "length")
    if not has_rank(value):
        return None
    shape = tensor_shape(name, value, dimensions)
    elements = math.prod(shape)
    return elements_bytes(elements, tensor_type(value).elem_type)


def elements_bytes(elements: int, element_type: int) -> int:
    """Bytes of ``elements`` values of a TensorProto.DataType; sub-byte types are packed."""
    return -(-elements * _bits(element_type) // 8)


def initializer_bytes(tensor: onnx.TensorProto) -> int:
    """Bytes of a stored tensor, by its dimensions (its data may be elsewhere)."""
    return elements_bytes(math.prod(tensor.dims), tensor.data_type)


def constant_bytes(node: onnx.NodeProto) -> int:
    """Bytes of a Constant node's value, whichever attribute holds it."""
    attribute = node.attribute[0]
    if attribute.name == "value":
        return initializer_bytes(attribute.t)
    if attribute.name == "sparse_value":
        return sparse_bytes(attribute.sparse_tensor)
    many = {"value_floats": attribute.floats, "value_ints": attribute.ints}
    per_element = {"value_floats": 4, "value_float": 4, "value_ints": 8, "value_int": 8}
    count = len(many[attribute.name]) if attribute.name in many else 1
    if attribute.name == "value_strings":
        count = len(attribute.strings)
    return count * per_element.get(attribute.name, STRING_BYTES)


def sparse_bytes(tensor: onnx.SparseTensorProto) -> int:
    """Bytes of a sparse tensor: its values and their indices."""
    return initializer_bytes(tensor.values) + initializer_bytes(tensor.indices)


def _bits(element_type: int) -> int:
    name = onnx.TensorProto.DataType.Name(element_type) if element_type else "UNDEFINED"
    if name == "UNDEFINED":
        raise ImporterError("the ONNX model holds a tensor of undefined element type")
    if name == "STRING":
        return 8 * STRING_BYTES
    if name in ("UINT4", "INT4", "FLOAT4E2M1"):
        return 4
    if name in ("UINT2", "INT2"):
        return 2
    if name in ("FLOAT6E2M3", "FLOAT6E3M2"):
        return 6
    return 8 * onnx.helper.tensor_dtype_to_np_dtype(element_type).itemsize

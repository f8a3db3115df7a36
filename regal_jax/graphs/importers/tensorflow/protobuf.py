"""CostGraphDef as a protobuf message, in text or binary format, without TensorFlow.

The descriptor is made at run time, in a pool of its own, so that it can't clash with TensorFlow's,
from what ``tensorflow/core/framework/cost_graph.proto`` says of the fields that are read. It has
proto2's presence, so that ``HasField`` tells an omitted value from 0; other fields are skipped.
"""

import functools
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.message import DecodeError, Message

from regal_jax.errors import ImporterError

_FIELDS = {
    "CostGraphDef": "repeated Node node = 1",
    "Node": """
        string name = 1
        int32 id = 3
        repeated InputInfo input_info = 4
        repeated OutputInfo output_info = 5
        int64 temporary_memory_size = 6
        bool is_final = 7
        repeated int32 control_input = 8
        int64 compute_cost = 9
        int64 host_temp_memory_size = 10
        int64 device_temp_memory_size = 11
        int64 persistent_memory_size = 12
        int64 host_persistent_memory_size = 13
        int64 device_persistent_memory_size = 16""",
    "InputInfo": """
        int32 preceding_node = 1
        int32 preceding_port = 2""",
    "OutputInfo": """
        int64 size = 1
        int64 alias_input_port = 2""",
}
"""Message -> its fields. 12 was called ``host_persistent_memory_size`` at first; 13 is free, and
stands here for texts of that time."""


def parse(data: str | bytes) -> Any:
    """The CostGraphDef of a text or of bytes. Raises ImporterError, for a text with the line."""
    return _parse_binary(data) if isinstance(data, bytes) else _parse_text(data)


def _parse_text(text: str) -> Message:
    message = _cost_graph_def()()
    try:
        text_format.Merge(text, message, allow_unknown_field=True)
    except text_format.ParseError as error:
        raise ImporterError(_located(text, error)) from None
    except RecursionError:
        raise ImporterError("messages are nested too deeply") from None
    return message


def _parse_binary(data: bytes) -> Message:
    try:
        return _cost_graph_def().FromString(data)
    except DecodeError:
        raise ImporterError("broken protobuf; is it a CostGraphDef?") from None


@functools.cache
def _cost_graph_def() -> type[Message]:
    file = descriptor_pb2.FileDescriptorProto(name="cost_graph.proto", package="regal_jax")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for line in fields.strip().splitlines():
            _add_field(message, *line.replace("=", "").split())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("regal_jax.CostGraphDef"))


def _add_field(message: descriptor_pb2.DescriptorProto, *words: str) -> None:
    """Adds ``[repeated] type name number``."""
    *label, kind, name, number = words
    field = message.field.add(name=name, number=int(number))
    field.label = field.LABEL_REPEATED if label else field.LABEL_OPTIONAL
    if kind in _FIELDS:
        field.type, field.type_name = field.TYPE_MESSAGE, f".regal_jax.{kind}"
    else:
        field.type = descriptor_pb2.FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")


def _located(text: str, error: text_format.ParseError) -> str:
    """The line, what stands there, and what is wrong with it."""
    row, column = error.GetLine() or 1, error.GetColumn() or 1
    line = text.split("\n")[row - 1]
    near = line[max(0, column - 30) : column + 10].strip()
    problem = str(error).partition(" : ")[2].removeprefix(f"'{line}': ")
    return f"line {row}: {problem.rstrip('.')} (at {near!r})"

"""Flags that subcommands share, and how their values are read."""

import argparse
import types
import typing
from typing import Any

from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.any_file import import_graph
from regal_jax.options import byte_count as read_bytes

_GRAPH = "a .json, .jsonl, .onnx, .pbtxt, .pb or .hlo / .txt (XLA) file"


def add_graph(parser: argparse.ArgumentParser) -> None:
    """GRAPH, and what an ONNX model needs; ``read_graph`` reads it."""
    parser.add_argument("graph", metavar="GRAPH", type=text, help=_GRAPH)
    add_dimensions(parser)


def add_dimensions(parser: argparse.ArgumentParser) -> None:
    """What an ONNX model may need."""
    parser.add_argument(
        "--dimensions",
        type=sizes,
        metavar="NAME=SIZE,...",
        help="sizes of an ONNX model's unknown dimensions: batch=1,height=320 (*=1: of all others)",
    )


def read_graph(options: argparse.Namespace) -> ComputationGraph:
    """The graph of ``add_graph``. Raises RegalError for a file that isn't one."""
    return import_graph(options.graph, dimensions=options.dimensions)


def add_platform(parser: argparse.ArgumentParser, *, with_devices: bool = True) -> None:
    """What a graph runs on."""
    group = parser.add_argument_group("what it runs on")
    if with_devices:
        group.add_argument("--num_devices", type=int, metavar="D", help=DEVICES)
    group.add_argument("--memory_capacity", type=byte_count, metavar="BYTES", help=CAPACITY)
    group.add_argument("--latency", type=float, default=0.0, metavar="US", help="us per transfer")
    group.add_argument(
        "--per_byte", type=float, default=0.0, metavar="US", help="us per byte transferred"
    )


DEVICES = "2, or the number of machine types"


def platform(options: argparse.Namespace) -> Platform:
    """The platform of ``add_platform``."""
    num_devices = 2 if options.num_devices is None else options.num_devices
    return Platform(num_devices, options.memory_capacity, options.latency, options.per_byte)


def add_printing(parser: argparse.ArgumentParser) -> None:
    """What is printed, and how; ``printing.report`` does it."""
    group = parser.add_argument_group("what is printed")
    group.add_argument("--json", action="store_true", help="print JSON, in bytes and us")
    group.add_argument("-q", "--quiet", action="store_true", help="print errors, and JSON, alone")
    group.add_argument(
        "-v", "--verbose", action="store_true", help="print each step, and where errors come from"
    )


CAPACITY = "bytes per device, such as 2GiB"


def of_type(hint: Any) -> dict[str, Any]:
    """How argparse reads an option of that type; of a union, its first member."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) is typing.Literal:
        return {"choices": typing.get_args(hint)}
    return {"type": hint if hint in (int, float) else text}


def byte_count(text: str) -> int:
    """Bytes, of a number with or without a unit; as ``options.byte_count`` does."""
    try:
        return read_bytes(text)
    except OptionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def text(value: str) -> str:
    """A path or a name: an empty one is a mistake, such as a shell variable that isn't set."""
    if not value or "\0" in value:
        raise argparse.ArgumentTypeError("must not be empty, or hold a null character")
    return value


def sizes(text: str) -> dict[str, int]:
    """Sizes by name: batch=1,height=320."""
    found: dict[str, int] = {}
    for item in text.split(","):
        name, equals, size = item.rpartition("=")
        if not (name and equals and size.isascii() and size.isdigit() and len(size) < 19):
            raise argparse.ArgumentTypeError(f"{item!r} is not NAME=SIZE")
        if name in found:
            raise argparse.ArgumentTypeError(f"{name!r} twice")
        found[name] = int(size)
    return found

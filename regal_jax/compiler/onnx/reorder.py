"""ONNX models with their nodes reordered, so that runs in the order of the file need less memory.

The cost model is that of ``from_onnx``: inputs, initializers and constants are in memory from the
start, outputs to the end, everything else from the node that makes it to the last that reads it or
a view of it (Reshape and its kind copy nothing). It differs in that every node stays, whether or
not it leads to an output. What a call of a local function needs inside counts 0.

Runtimes may order nodes anew. onnxruntime (1.31, as seen in its profiles) does by default: a
depth-first walk back from the last nodes, whatever the file says. With ::

    options = onnxruntime.SessionOptions()
    options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL

it runs the nodes as the file lists them, but for Shape and Size nodes, which run as soon as they
can, and Constant nodes, which never do. With ORT_ENABLE_BASIC as well, where that replaces no
nodes; the levels above fuse nodes and put what they made last. To have the basic optimizations and
the order, let a session save what it made of the model (``options.optimized_model_filepath``),
reorder that and run it without.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from regal_jax.compiler.order_report import OrderReport, least_memory_order
from regal_jax.errors import MissingDependencyError, OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.files import write_atomically
from regal_jax.graphs.importers.onnx.dimensions import Dimensions, read_dimensions
from regal_jax.graphs.importers.onnx.model import load_model, located, warn_of_hidden

if TYPE_CHECKING:
    import onnx


def reorder_onnx(
    model: "str | os.PathLike | onnx.ModelProto",
    *,
    method: str = "auto",
    seed: int = 0,
    evaluations: int | None = None,
    time_limit: float | None = None,
    dimensions: Mapping[str, int] | None = None,
) -> "tuple[onnx.ModelProto, OrderReport]":
    """A copy of a model with the nodes of its main graph in the best order found.

    Nothing else changes: not the nodes, nor the order inside bodies of If, Loop and Scan (whose
    nodes wait for the outer values that they name), nor weights in external files, which aren't
    read. The order stays as it is if no better one is found. Random nodes without the attribute
    ``seed`` may draw other numbers, as they may from one run to the next.

    Args:
      model: a path, or a model, which is left as it is.
      method, seed, evaluations, time_limit: of the search, see ``regal_jax.optimize``.
      dimensions: sizes of unknown dimensions, see ``regal_jax.from_onnx``.

    Raises:
      MissingDependencyError: without the package onnx.
      ImporterError: no ONNX model, or tensors of unknown size.
      OptionError: a method or an option that doesn't fit.
    """
    try:
        import onnx
    except ImportError:
        raise MissingDependencyError("onnx", "onnx") from None
    if isinstance(model, onnx.ModelProto):
        source, where = model, model.graph.name or "model"
    else:
        source, where = load_model(Path(model)), str(model)
    graph = _graph(source, where, read_dimensions(dimensions))
    warn_of_hidden(graph, where)
    order, report = least_memory_order(
        graph,
        method=method,
        seed=seed,
        evaluations=evaluations,
        time_limit=time_limit,
    )
    return _with_order(source, order.tolist()), report


def save_onnx(model: "onnx.ModelProto", path: str | os.PathLike) -> None:
    """Writes a model, atomically. Its weights in external files must be found from there.

    Raises OptionError: a file of weights isn't beside ``path``, or the model is over 2 GiB without
    them, which no file of this format holds. Raises RegalError: can't write there.
    """
    path = Path(path)
    for location in sorted(_external_files(model.graph)):
        if not (path.parent / location).is_file():
            raise OptionError(
                f"{path}: the model's weights {location!r} aren't in this folder; "
                "write it beside the model it was made from, or copy them"
            )
    try:
        content = model.SerializeToString()
    except Exception:  # protobuf's EncodeError or a ValueError, by its version
        raise OptionError(f"{path}: over 2 GiB; keep its weights in an external file") from None
    write_atomically(path, lambda file: file.write(content))


def _graph(model: "onnx.ModelProto", where: str, dimensions: Dimensions) -> ComputationGraph:
    from regal_jax.compiler.onnx.nodes import graph_of_nodes

    with located(where):
        return graph_of_nodes(model, dimensions)


def _external_files(graph: "onnx.GraphProto") -> set[str]:
    """The files that hold weights of a graph and its bodies, relative to the model's folder."""
    from regal_jax.graphs.importers.onnx.folding import subgraphs

    entries = (entry for tensor in graph.initializer for entry in tensor.external_data)
    found = {entry.value for entry in entries if entry.key == "location"}
    bodies = (body for node in graph.node for body in subgraphs(node))
    return found.union(*map(_external_files, bodies))


def _with_order(model: "onnx.ModelProto", order: list[int]) -> "onnx.ModelProto":
    import onnx

    reordered = onnx.ModelProto()
    reordered.CopyFrom(model)
    del reordered.graph.node[:]
    reordered.graph.node.extend(model.graph.node[index] for index in order)
    return reordered

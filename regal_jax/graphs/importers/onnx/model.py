"""ONNX models as computation graphs.

What becomes an op: every node of the main graph, in its order, but
- local functions are inlined; Constant nodes, initializers and graph inputs are parameters (no
  producer, persistent), each once;
- Reshape, Flatten, Squeeze, Unsqueeze, Identity and Dropout in inference (mask unread) vanish,
  their output being their input;
- an If whose branch is known (``branches``) is that branch's nodes; other Ifs, Loop, Scan and nodes
  with bodies become one op each, which also reads the outer values its bodies name. Its workspace
  is the program-order liveness peak of one run of a body beyond its inputs and outputs, the maximum
  over bodies (values of unknown size inside count 0 and are listed in
  ``extra[""]["unknown_body_values"]``). FLOPs: the largest body, times the trip count where that is
  constant. How many ops each hides is warned of, and in ``extra[""]["hidden_ops"]``;
- nodes that lead to no output are dropped.
Sizes come from onnx's shape inference with constant folding. Unknown dimensions have to be given:
symbols of the inputs, data-dependent dimensions (``tensor[axis]``), lengths of sequences and maps
(``tensor[length]``); those that ``"*"`` gives its size are in ``extra[""]["assumed_dimensions"]``,
and so are those inside bodies, which are 1 by default. A string counts 16 bytes. FLOPs: ``flops``.
Weights in external files are not read. Training info is ignored.
"""

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regal_jax import registry
from regal_jax.errors import DAMAGE, ImporterError, MissingDependencyError, RegalError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.onnx.dimensions import Dimensions, read_dimensions
from regal_jax.graphs.importers.roofline import A100, DeviceProfile

if TYPE_CHECKING:
    import onnx


@registry.importer(".onnx")
def from_onnx(
    source: "str | os.PathLike | onnx.ModelProto",
    *,
    profile: DeviceProfile = A100,
    dimensions: Mapping[str, int] | None = None,
) -> ComputationGraph:
    """The graph of an ONNX model's inference.

    Args:
      source: a path, or a model.
      profile: the device whose roofline gives the durations.
      dimensions: sizes of symbolic dimensions (``{"batch": 8}``), of nameless ones by their place
        (``{"x[0]": 8}``), of all others (``{"*": 1}``).

    Raises:
      MissingDependencyError: without the package onnx.
      ImporterError: no such file, not an ONNX model, a tensor whose shape can't be inferred, a
        dimension without a size (all of the inputs' at once), or a size for none.
      OptionError: a size below 1.
    """
    try:
        import onnx
    except ImportError:
        raise MissingDependencyError("onnx", "onnx") from None
    if isinstance(source, onnx.ModelProto):
        model, where, stem = source, source.graph.name or "model", "model"
    else:
        model, where, stem = load_model(Path(source)), str(source), Path(source).stem
    sizes = read_dimensions(dimensions)
    with located(where):
        graph = _convert(model, stem, profile, sizes)
    warn_of_hidden(graph, where)
    return graph


def warn_of_hidden(graph: ComputationGraph, where: str) -> None:
    """Warns the caller's caller of ops that aren't single ones: no order reaches into them."""
    hidden = graph.extra.get("", {}).get("hidden_ops", {})
    if hidden:
        ops = ", ".join(f"{name!r} hides {count}" for name, count in hidden.items())
        warnings.warn(f"{where}: an If, Loop or Scan counts as one op: {ops}", stacklevel=3)


@contextmanager
def located(where: str) -> Iterator[None]:
    """What goes wrong with a model inside is an ImporterError with its name."""
    try:
        yield
    except RegalError as error:
        raise ImporterError(f"{where}: {error}") from None
    except DAMAGE as error:
        reason = (str(error).splitlines() or [""])[0]
        message = f"{where}: a malformed ONNX model ({type(error).__name__}: {reason})"
        raise ImporterError(message) from error


def load_model(path: Path) -> "onnx.ModelProto":
    """A model from a file, without weights in external files. Raises ImporterError."""
    import onnx

    try:
        model = onnx.load(path, format="protobuf", load_external_data=False)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ImporterError(f"{path}: {reason}") from None
    except Exception:  # protobuf's DecodeError, whose module depends on its version
        raise ImporterError(f"{path}: not an ONNX model (broken protobuf)") from None
    if not (model.ir_version and model.HasField("graph")):
        raise ImporterError(f"{path}: not an ONNX model (it has no graph)")
    return model


def _convert(
    model: "onnx.ModelProto", stem: str, profile: DeviceProfile, dimensions: Dimensions
) -> ComputationGraph:
    import onnx

    from regal_jax.graphs.importers.graph_builder import GraphBuilder
    from regal_jax.graphs.importers.onnx import branches, folding, shapes
    from regal_jax.graphs.importers.onnx import lowering as onnx_lowering

    model = shapes.inline_functions(model)
    inferred, values = shapes.infer_model(model, dimensions)
    while branches.inline_branches(inferred.graph, values):
        inferred, values = shapes.infer_model(inferred, dimensions)
    types = folding.graph_types(inferred.graph)
    lowering = onnx_lowering.Lowering(GraphBuilder(), types, values, dimensions)
    inputs = [info.name for info in model.graph.input]
    environment = lowering.add_parameters(inferred.graph, inputs)
    outputs = lowering.add_nodes(inferred.graph, environment)
    dimensions.check_complete()
    dimensions.check_used()
    builder = lowering.builder.prune(outputs)
    top: dict[str, Any] = {}
    if dimensions.assumed:
        top["assumed_dimensions"] = dict(dimensions.assumed)
    if lowering.hidden:
        top["hidden_ops"] = lowering.hidden
    if lowering.unknown:
        top["unknown_body_values"] = sorted(set(lowering.unknown))
    return builder.build(
        profile,
        name=model.graph.name or stem,
        source=f"onnx-{onnx.__version__}",
        extra={"": top} if top else {},
    )

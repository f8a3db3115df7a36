"""ONNX models as computation graphs.

What becomes an op: every node of the main graph, in its order, but
- local functions are inlined; Constant nodes, initializers and graph inputs are parameters (no
  producer, persistent), each once;
- Reshape, Flatten, Squeeze, Unsqueeze, Identity and Dropout in inference (mask unread) vanish,
  their output being their input;
- If, Loop, Scan and other nodes with bodies become one op each, which also reads the outer values
  its bodies name. Its workspace is the program-order liveness peak of one run of a body beyond its
  inputs and outputs, the maximum over bodies (values of unknown size inside count 0 and are listed
  in ``extra[""]["unknown_body_values"]``). FLOPs: the largest body, times the trip count where
  that is constant;
- nodes that lead to no output are dropped.
Sizes come from onnx's shape inference with constant folding. Symbolic dimensions are 1 unless
given; the assumed ones are in ``extra[""]["assumed_dimensions"]``, so are data-dependent dimensions
(``tensor[axis]``) and the lengths of sequences and maps (``tensor[length]``). A string counts 16
bytes. FLOPs: ``flops``. Weights in external files are not read. Training info is ignored.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regal_jax.errors import ImporterError, MissingDependencyError, RegalError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.roofline import A100, DeviceProfile

if TYPE_CHECKING:
    import onnx


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
        (``{"x[0]": 8}``); 1 for the rest.

    Raises:
      MissingDependencyError: without the package onnx.
      ImporterError: no such file, not an ONNX model, or a tensor whose shape can't be inferred.
    """
    try:
        import onnx
    except ImportError:
        raise MissingDependencyError("onnx", "onnx") from None
    if isinstance(source, onnx.ModelProto):
        model, where, stem = source, source.graph.name or "model", "model"
    else:
        model, where, stem = load_model(Path(source)), str(source), Path(source).stem
    with located(where):
        return _convert(model, stem, profile, dict(dimensions or {}))


@contextmanager
def located(where: str) -> Iterator[None]:
    """What goes wrong with a model inside is an ImporterError with its name."""
    try:
        yield
    except RegalError as error:
        raise ImporterError(f"{where}: {error}") from None
    except _DAMAGE as error:
        reason = (str(error).splitlines() or [""])[0]
        message = f"{where}: a malformed ONNX model ({type(error).__name__}: {reason})"
        raise ImporterError(message) from error


_DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    StopIteration,
    TypeError,
    ValueError,
)
"""What reading the fields of a model that breaks ONNX's own rules can end in."""


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
    model: "onnx.ModelProto", stem: str, profile: DeviceProfile, given: Mapping[str, int]
) -> ComputationGraph:
    import onnx

    from regal_jax.graphs.importers.graph_builder import GraphBuilder
    from regal_jax.graphs.importers.onnx import folding, shapes
    from regal_jax.graphs.importers.onnx import lowering as onnx_lowering
    from regal_jax.graphs.importers.onnx.types import Dimensions

    dimensions = Dimensions(given)
    model = shapes.inline_functions(model)
    inferred, values = shapes.infer_model(model, dimensions)
    types = folding.graph_types(inferred.graph)
    lowering = onnx_lowering.Lowering(GraphBuilder(), types, values, dimensions)
    inputs = [info.name for info in model.graph.input]
    environment = lowering.add_parameters(inferred.graph, inputs)
    builder = lowering.builder.prune(lowering.add_nodes(inferred.graph, environment))
    top: dict[str, Any] = {}
    if dimensions.assumed:
        top["assumed_dimensions"] = dict(dimensions.assumed)
    if lowering.unknown:
        top["unknown_body_values"] = sorted(set(lowering.unknown))
    return builder.build(
        profile,
        name=model.graph.name or stem,
        source=f"onnx-{onnx.__version__}",
        extra={"": top} if top else {},
    )

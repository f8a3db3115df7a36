"""Importing a graph file of any supported kind, told by its suffix."""

import inspect
import os
from collections.abc import Mapping
from pathlib import Path

from regal_jax import registry
from regal_jax.errors import ImporterError, OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.files import load_graph
from regal_jax.graphs.importers.onnx.model import from_onnx
from regal_jax.graphs.importers.tensorflow.cost_graph import from_cost_graph
from regal_jax.graphs.importers.xla.module import from_hlo

registry.importer(".json", ".jsonl", ".jsonl.gz")(load_graph)
registry.importer(".onnx")(from_onnx)
registry.importer(".pbtxt", ".pb")(from_cost_graph)
registry.importer(".hlo", ".txt", ".hlo.pb")(from_hlo)


def import_graph(
    path: str | os.PathLike, *, dimensions: Mapping[str, int] | None = None
) -> ComputationGraph:
    """The graph in a file of a registered kind (``registry.importer``), the longest suffix first.

    Among them are ``regal-graph/1``, ONNX models, CostGraphDef (``.pb`` is binary) and XLA's HLO:
    dumps end in ``.txt`` (``module_0001.jit_f.cpu_after_optimizations.txt``) or ``.hlo``, a
    serialized module in ``.hlo.pb``.

    ``dimensions`` sizes what an ONNX model leaves open, see ``regal_jax.from_onnx``.

    Raises RegalError (of which ImporterError and GraphError are kinds) in one line.
    """
    name, importers = Path(path).name.lower(), registry.entries("importer")
    for suffix in sorted(importers, key=len, reverse=True):
        if name.endswith(suffix):
            make = importers[suffix].make
            if not dimensions:
                return make(path)
            if "dimensions" not in inspect.signature(make).parameters:
                raise OptionError(f"{path}: a {suffix} file has no unknown dimensions to size")
            return make(path, dimensions=dimensions)
    raise ImporterError(f"{path}: unknown kind of file; supported are {', '.join(importers)}")

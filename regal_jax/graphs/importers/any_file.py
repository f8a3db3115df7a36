"""Importing a graph file of any supported kind, told by its suffix."""

import inspect
import os
from collections.abc import Mapping
from pathlib import Path

from regal_jax import registry
from regal_jax.errors import ImporterError, OptionError
from regal_jax.graphs.computation_graph import ComputationGraph


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
    name, importers = Path(path).name.lower(), registry.names("importer")
    for suffix in sorted(importers, key=len, reverse=True):
        if name.endswith(suffix):
            make = registry.find("importer", suffix).make
            if not dimensions:
                return make(path)
            if "dimensions" not in inspect.signature(make).parameters:
                raise OptionError(f"{path}: a {suffix} file has no unknown dimensions to size")
            return make(path, dimensions=dimensions)
    raise ImporterError(f"{path}: unknown kind of file; supported are {', '.join(importers)}")

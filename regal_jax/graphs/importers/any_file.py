"""Importing a graph file of any supported kind, told by its suffix."""

import os
from pathlib import Path

from regal_jax.errors import ImporterError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.files import load_graph
from regal_jax.graphs.importers.onnx.model import from_onnx
from regal_jax.graphs.importers.tensorflow.cost_graph import from_cost_graph
from regal_jax.graphs.importers.xla.module import from_hlo


def import_graph(path: str | os.PathLike) -> ComputationGraph:
    """The graph in a ``regal-graph/1`` file, an ONNX model, a CostGraphDef or HLO text.

    XLA's dumps end in ``.txt`` (``module_0001.jit_f.cpu_after_optimizations.txt``) or ``.hlo``;
    a serialized module in ``.hlo.pb``.

    Raises RegalError (of which ImporterError and GraphError are kinds) in one line.
    """
    name = Path(path).name.lower()
    if name.endswith((".json", ".jsonl", ".jsonl.gz")):
        return load_graph(path)
    if name.endswith(".onnx"):
        return from_onnx(path)
    if name.endswith(".pbtxt"):
        return from_cost_graph(path)
    if name.endswith((".txt", ".hlo", ".hlo.pb")):
        return from_hlo(path)
    suffixes = ".json, .jsonl, .jsonl.gz, .onnx, .pbtxt, .hlo, .txt, .hlo.pb"
    raise ImporterError(f"{path}: unknown kind of file; supported are {suffixes}")

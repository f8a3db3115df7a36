"""ONNX models in the order of their file against ours: bytes by the cost model."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regal_jax.compiler.onnx.reorder import reorder_onnx
from regal_jax.errors import MissingDependencyError
from regal_jax.reporting.results import Row
from regal_jax.studies import keys
from regal_jax.studies.flags import option
from regal_jax.studies.kept import KEY, KeptRows
from regal_jax.studies.settings import Output

EXTRA_COLUMNS = (KEY, "budget")
_LAST_METRIC = "lower_bound"


@dataclass(frozen=True, kw_only=True)
class Settings(Output):
    """Which models, and how their orders are searched."""

    models: tuple[str, ...] = option((), "ONNX files; the test networks of onnx, unless given.")
    evaluations: int = option(200_000, "Of auto, on each model.")
    seed: int = option(0, "Of the search.")


def measure(settings: Settings, path: Path) -> list[Row]:
    """Rows of every model, appended to ``path``; those that are there aren't made again.

    Raises MissingDependencyError without the package onnx, ImporterError for what is no model.
    """
    kept, rows = KeptRows(path, _LAST_METRIC, EXTRA_COLUMNS), []
    for model in map(Path, settings.models or _test_networks()):
        options = {"evaluations": settings.evaluations, "seed": settings.seed}
        key = keys.key(name=model.stem, model=model, **options)
        rows += kept.rows(key, functools.partial(_rows, model, settings))
    return rows


def _test_networks() -> Sequence[Path]:
    try:
        import onnx
    except ImportError:
        raise MissingDependencyError("onnx", "onnx") from None
    return sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("*.onnx"))


def _rows(model: Path, settings: Settings) -> list[Row]:
    _, report = reorder_onnx(model, evaluations=settings.evaluations, seed=settings.seed)
    common = {"graph": model.stem, "seed": settings.seed, "budget": settings.evaluations}
    values = (
        ("file", "peak", report.peak_before),
        ("regal_jax", "peak", report.peak_after),
        ("bound", _LAST_METRIC, report.lower_bound),
    )
    return [common | {"method": m, "metric": metric, "value": v} for m, metric, v in values]

"""Reports of robust scheduling: tables of comparisons, and what trainings of policies told."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np

from regal_jax.graphs import files
from regal_jax.reporting import results
from regal_jax.studies import keys
from regal_jax.studies.comparison import candidates
from regal_jax.studies.comparison.candidates import Row
from regal_jax.studies.gflownet import comparison, tables
from regal_jax.studies.gflownet.settings import Comparison
from regal_jax.studies.gflownet.tables import Line, PaperTable
from regal_jax.studies.kept import KEY
from regal_jax.training.flow import VALIDATION

Summary = Callable[[Sequence[Row], str], Sequence[Line]]
NONE: PaperTable = MappingProxyType({})


def report(
    rows: Sequence[Row],
    setting: str,
    summary: Summary,
    settings: Comparison,
    paper: PaperTable = NONE,
) -> None:
    """Prints the table of a setting, GFlowNet's differences from the others on the targets (on the
    proxy, without targets), and the seconds.

    Args:
      rows: of ``comparison.compare``.
      summary: ``tables.over_seeds`` or ``over_graphs``.
      paper: the table to set beside ours.
    """
    _report(comparison.chosen(rows, [setting], settings.methods), setting, summary, settings, paper)


def report_families(
    rows: Sequence[Row], families: Sequence[str], settings: Comparison, paper: PaperTable
) -> None:
    """Prints what ``report`` does of the graphs of all families, and a table of each."""
    every, methods = "all families", settings.methods
    together = comparison.chosen(rows, families, methods, every)
    _report(together, every, tables.over_graphs, settings, paper)
    for family in families:
        own = comparison.chosen(rows, [family], methods)
        print(tables.text(family, tables.over_graphs(own, family)) + "\n")


def print_pairs(
    rows: Sequence[Row], setting: str, method: str, compared: Sequence[str] | None = None
) -> None:
    """Prints what a method has more than each of the others, where both were run."""
    if pairs := tables.paired(rows, setting, method, compared):
        title = f"{setting}: {method} less the others, of the same graph and seed"
        print(tables.paired_text(title, pairs) + "\n")


def report_variants(
    policies: Mapping[str, Sequence[Path]], setting: str, folder: Path
) -> list[Row]:
    """Prints what the trainings of variants reported, means over the seeds; the rows, which
    ``results.csv`` gets, too.

    Metrics are "quarter_1" to "quarter_4", the mean speedup of the schedules that were drawn in
    each quarter of the steps, and the last "validation_top_1" and "validation_top".
    """
    rows = []
    for label, some in policies.items():
        for seed, file in enumerate(some):
            common = {"setting": setting, "graph": setting, "ops": "", "method": label}
            common[KEY] = keys.key(policy=file)
            read = _training_metrics(file.parent / "metrics.csv")
            rows += [common | {"seed": seed, "metric": m, "value": v} for m, v in read.items()]
    results.write_results(folder / "results.csv", rows, (KEY, "setting", "ops"))
    title = f"{setting}: speedups of schedules during training, and at its end"
    print(tables.text(title, tables.over_seeds(rows, setting)) + "\n")
    return rows


def _report(
    rows: Sequence[Row], setting: str, summary: Summary, settings: Comparison, paper: PaperTable
) -> None:
    title = f"{setting}: speedups and diversity of the best {settings.candidates} schedules"
    print(tables.text(title, summary(rows, setting), paper) + "\n")
    compared = tables.targets(rows) or list(tables.SPEEDUPS)
    print_pairs(rows, setting, "gflownet", compared)
    seconds = candidates.mean_seconds(rows, setting)
    print("seconds to sample: " + ", ".join(f"{m} {t:.2g}" for m, t in seconds.items()) + "\n")


def _training_metrics(path: Path) -> dict[str, float]:
    table = list(csv.DictReader(io.StringIO(files.read_text(path), newline="")))
    numbers = {
        column: [float(row[column]) for row in table if row[column]]
        for column in ("speedup", *VALIDATION)
    }
    parts = np.array_split(numbers.pop("speedup"), 4)
    found = {f"quarter_{n}": float(part.mean()) for n, part in enumerate(parts, 1) if len(part)}
    return found | {column: values[-1] for column, values in numbers.items() if values}

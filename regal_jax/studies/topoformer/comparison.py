"""Topoformer's comparisons: the rows of its tables, run and printed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.options import Decoding
from regal_jax.policies.topological_order.policy import OrderingConfig
from regal_jax.studies.comparison import searches
from regal_jax.studies.comparison.searches import Run
from regal_jax.studies.regal import tables as regal_tables
from regal_jax.studies.topoformer import graphs, tables, training
from regal_jax.studies.topoformer.settings import RANDOM_METHODS, Comparison, Variants
from regal_jax.studies.topoformer.tables import PaperTable
from regal_jax.training import checkpoints

CHOOSING = ("next_op", "lookahead")
"""Methods that choose op by op: greedily, and by samples."""
WARM_UP = 1000
"""Evaluations in which a search compiles all that it needs."""


def runs(
    files: Mapping[str, Path],
    settings: Comparison,
    *,
    next_op: Path | None = None,
    guided: bool = True,
) -> list[Run]:
    """The rows of a table: --methods, then each policy, greedily, by samples, by beam search and,
    if ``guided``, guiding a dynamic programme (which autoregressive policies can't). ``next_op`` is
    that method's policy, unless it is the shipped one."""
    chosen = [name for name in settings.methods if name in CHOOSING]
    plain = [name for name in settings.methods if name not in ("topoformer", *CHOOSING)]
    found = [_baseline(name, settings) for name in plain]
    for name, file in files.items():
        config = checkpoints.load_policy(file, OrderingConfig)[1]
        decodings: list[Decoding] = ["greedy", "sample", "beam"]
        decodings += ["guided"] if guided and config.decoder == "nar" else []
        found += _decoded(name, "topoformer", decodings, settings, policy=file)
    for name in chosen:
        own = {"policy": next_op} if name == "next_op" and next_op else {}
        found += _decoded(name, name, ("greedy", "sample"), settings, **own)
    return found


def reference(settings: Comparison) -> str:
    """The label of approximate_dp, from whose peak memory gaps are measured."""
    if "approximate_dp" not in settings.methods:
        raise OptionError("methods: gaps are from approximate_dp; name it, too")
    return _baseline("approximate_dp", settings).label


def compare(
    tests: Mapping[str, Sequence[ComputationGraph]],
    runs: Sequence[Run],
    folder: Path,
    settings: Comparison,
) -> list[dict]:
    """Rows of ``searches.compare`` on one device, with --seeds for methods that are random.

    Compilation isn't in the seconds, except with a time limit.
    """
    return searches.compare_random(
        tests,
        runs,
        lambda run: run.method not in RANDOM_METHODS,
        seeds=settings.seeds,
        path=folder / "results.csv",
        platform=searches.PlatformRule(num_devices=1),
        executor=settings.executor,
    )


def compare_variants(
    folder: Path, known: Mapping[str, Mapping[str, Any]], settings: Variants, paper: PaperTable
) -> None:
    """Trains the policies of --variants and prints their table for every size of layered graphs."""
    reference(settings)
    measured = runs(training.train_variants(folder, known, settings), settings, guided=False)
    tests = graphs.layered_tests(settings.test_nodes, settings.test_graphs)
    report(compare(tests, measured, folder, settings), list(tests), measured, settings, paper)


def report(
    rows: Sequence[dict],
    names: Sequence[str],
    runs: Sequence[Run],
    settings: Comparison,
    paper: PaperTable,
) -> None:
    """Prints a table for every setting of graphs."""
    base = reference(settings)
    for setting in names:
        lines = tables.summary(rows, setting, [run.label for run in runs], base)
        title = f"{setting}: gap of peak memory from {base}"
        print(tables.text(title, lines, paper.get(setting, {})) + "\n")


def report_headroom(
    rows: Sequence[dict],
    setting: str,
    runs: Sequence[Run],
    settings: Comparison,
    paper: PaperTable,
) -> None:
    """Prints a setting's table of the graphs with headroom."""
    subset = tables.with_headroom(rows, setting)
    title = f"{setting}, graphs with at least {tables.HEADROOM:.0f} % headroom"
    if not subset:
        print(f"{title}: none\n")
        return
    labels = [run.label for run in runs]
    lines = tables.summary(rows, setting, labels, reference(settings), subset=subset)
    print(tables.text(title, lines, paper.get(setting, {})) + "\n")


def _baseline(method: str, settings: Comparison) -> Run:
    """A method at its budget, with a cheap warm-up."""
    if method == "depth_first_dp":
        limit = settings.dp_seconds
        return Run(f"{method} {limit:g}s", method, 1, options={"time_limit": limit})
    own = {"approximate_dp": settings.dp_width, "random_orders": settings.random_orders}
    evaluations = own.get(method, settings.search_evaluations)
    label = regal_tables.label(method, evaluations)
    quick = method in own or label == method
    return Run(label, method, evaluations, warm_up=1 if quick else min(evaluations, WARM_UP))


def _decoded(
    name: str, method: str, decodings: Sequence[Decoding], settings: Comparison, **options: Any
) -> list[Run]:
    """A row for each decoding of a method, at its budget."""
    found = []
    for decoding in decodings:
        own = {"greedy": 1, "guided": settings.guided_width}
        count = own.get(decoding, settings.test_samples)
        label = f"{name} {decoding}" + (f" {count}" if decoding != "greedy" else "")
        found.append(
            Run(label, method, count, options=options | {"decoding": decoding}, warm_up=count)
        )
    return found

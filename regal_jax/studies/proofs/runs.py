"""How many schedules of a corpus are proven optimal, within seconds each, and what is left open."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regal_jax.datasets.layered import layered_graphs
from regal_jax.datasets.zoo import load
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.rewrites.microbatches import microbatches
from regal_jax.reporting.results import Row
from regal_jax.studies.comparison import searches
from regal_jax.studies.comparison.searches import PlatformRule, Run
from regal_jax.studies.flags import option
from regal_jax.studies.settings import Output
from regal_jax.studies.topoformer.graphs import TEST_SEED

ONE_SEARCH = 10**9
"""Evaluations, more than any time limit allows."""


@dataclass(frozen=True, kw_only=True)
class Settings(Output):
    """Which graphs, and how long each is worked at."""

    folder: str | None = option(None, "Folder of graph files; by default the model zoo.")
    layered: tuple[int, ...] = option((), "Instead, layered graphs of so many ops.")
    split: str = option("all", "Of the model zoo: train, valid, test or all.")
    max_graphs: int = option(
        10_000, "Most graphs, drawn at random; of each size if layered.", least=1
    )
    max_ops: int = option(100_000, "Larger graphs are left out.", least=1)
    devices: tuple[int, ...] = option((1,), "Numbers of devices.")
    parts: tuple[int, ...] = option((1,), "Numbers of microbatches.")
    methods: tuple[str, ...] = option(("auto",), "Methods of optimize.")
    widths: tuple[int, ...] = option((), "Also approximate DP with so many sets of ops a step.")
    seconds: float = option(10.0, "Time limit of a search.")
    claims: tuple[str, ...] = option((), "Schedule files to judge instead of searching.")
    known: str = option("docs/results/proofs.csv", "Rows that claims are held against.")


def corpora(settings: Settings) -> dict[str, list[ComputationGraph]]:
    """Graphs by what their setting is called besides the devices: the corpus, in a random order, so
    that what is done of it at any time is a random sample; or layered graphs by size."""
    most = settings.max_graphs
    if settings.layered:
        return {f"{n:,} layered ops": layered_graphs(TEST_SEED, most, n) for n in settings.layered}
    every = load.model_zoo(split=settings.split, folder=settings.folder)
    order = np.random.default_rng(0).permutation(len(every))
    some = (every[index] for index in order)
    return {"": [graph for graph in some if graph.num_ops <= settings.max_ops][:most]}


def run(
    some: Mapping[str, Sequence[ComputationGraph]], settings: Settings, path: Path
) -> list[Row]:
    """Every method on every graph, in every setting; resumable."""
    methods = [Run(name, name, ONE_SEARCH) for name in settings.methods]
    methods += [
        Run(f"approximate_dp {width}", "approximate_dp", width) for width in settings.widths
    ]
    return [
        row
        for devices in settings.devices
        for parts in settings.parts
        for name, graphs in some.items()
        for row in _compared(name, graphs, methods, devices, parts, settings.seconds, path)
    ]


def _compared(
    corpus: str, some, methods, devices: int, parts: int, seconds: float, path: Path
) -> list[Row]:
    name = setting(devices, parts, corpus)
    return searches.compare(
        {name: [in_parts(graph, parts) for graph in some]},
        methods,
        seeds=1,
        path=path,
        platform=PlatformRule(devices),
        time_limit=seconds,
        title=name,
    )


def in_parts(graph: ComputationGraph, parts: int) -> ComputationGraph:
    """A graph in microbatches, named like those of the zoo."""
    name = graph.name if parts == 1 else f"{graph.name}@{parts}"
    return microbatches(graph, parts).replace(name=name)


def setting(devices: int, parts: int, corpus: str = "") -> str:
    """How a setting is called in the rows."""
    of_parts = f"{parts} microbatches" if parts > 1 else ""
    on_devices = f"{devices} device{'s' * (devices > 1)}"
    return ", ".join(filter(None, (on_devices, of_parts, corpus)))

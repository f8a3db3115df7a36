"""Candidates tried on targets with tensors of other sizes, log-normal of several spreads (ours)."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regal_jax.datasets import flow_corpora
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import tables
from regal_jax.search.placements import candidates
from regal_jax.search.placements.candidates import Candidates
from regal_jax.studies.comparison import candidates as comparison_candidates
from regal_jax.studies.comparison.candidates import Measure, Trial
from regal_jax.studies.flags import option
from regal_jax.studies.gflownet.settings import Comparison

LARGEST = 5
"""The share of so many tensors tells how unequal sizes are."""


@dataclass(frozen=True, kw_only=True)
class Settings(Comparison):
    """Which sizes, of the tensors of which graphs."""

    spreads: tuple[float, ...] = option(
        (0.0, 1.0, 2.0, 3.0), "Standard deviations of the sizes' logarithm."
    )
    unseen: bool = option(False, "Take the test graphs of table 3.")


def measure(trial: Trial, spreads: Sequence[float]) -> Measure:
    """Speedups of a search's candidates by target and spread, of the seed's sizes."""

    return functools.partial(_measured, trial=trial._replace(policies={}), spreads=tuple(spreads))


def _measured(
    graph: ComputationGraph,
    sampled: Candidates,
    seed: int,
    *,
    trial: Trial,
    spreads: Sequence[float],
) -> dict[str, float]:
    problem = comparison_candidates.proxy(graph, trial.num_devices)
    best = candidates.best_schedules(problem, sampled, trial.candidates)
    found: dict[str, float] = {}
    for spread in spreads:
        other = flow_corpora.with_sizes(graph, spread, seed)
        speedups = comparison_candidates.on_targets(other, best, trial)
        found |= {f"{name} {spread:g}": speedups[name] for name in trial.targets}
    return found


def print_shares(graphs: Sequence[ComputationGraph], spreads: Sequence[float], seeds: int) -> None:
    """Prints how much of all bytes the largest tensors have, as traced and by spread. OptionError
    for a spread out of range."""
    drawn = {
        f"{spread:g}": [
            flow_corpora.with_sizes(graph, spread, seed)
            for graph in graphs
            for seed in range(seeds)
        ]
        for spread in spreads
    }
    rows = [
        {"spread": name, "share %": float(np.mean([100 * largest_share(g) for g in some]))}
        for name, some in ({"as traced": graphs} | drawn).items()
    ]
    print(f"bytes of the {LARGEST} largest of the tensors that ops exchange, of all of theirs")
    print(tables.text_table(rows) + "\n")


def largest_share(graph: ComputationGraph) -> float:
    """The share that the ``LARGEST`` have in the bytes of all tensors that ops exchange."""
    exchanged = np.sort(graph.size[np.unique(graph.edges[:, 1])])
    return float(exchanged[-LARGEST:].sum() / max(exchanged.sum(), 1))

"""What there is to gain on a graph: its bounds, the costs of simple orders, and the best known.

A measured graph is a row of a corpus' card (``card``).
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from regal_jax.datasets.zoo.load import mode_of
from regal_jax.environments.placement import bounds
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.rewrites.microbatches import microbatches
from regal_jax.methods import simple
from regal_jax.methods.portfolio import run_portfolio
from regal_jax.options import Budget, Result


class Setting(NamedTuple):
    """On how many devices, and in how many microbatches, a graph is run."""

    num_devices: int
    num_microbatches: int


SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {"d1": Setting(1, 1), "d2": Setting(2, 1), "d2m4": Setting(2, 4)}
)
"""The settings of a card."""


def structure(graph: ComputationGraph, split: str) -> dict[str, Any]:
    """What a graph is: the columns of a card that need no search. Bytes, us."""
    length, _ = precedence.critical_path(graph)
    return {
        "name": graph.name,
        "family": graph.family,
        "source": graph.source,
        "mode": mode_of(graph),
        "split": split,
        "fingerprint": graph.fingerprint[:16],
        "ops": graph.num_ops,
        "tensors": graph.num_tensors,
        "edges": len(graph.edges),
        "depth": int(precedence.levels(graph).max(initial=-1)) + 1,
        "flops": None if graph.flops is None else int(graph.flops.sum()),
        "bytes": int(graph.size.sum()),
        "persistent_bytes": int(graph.size[graph.persistent].sum()),
        "work": round(float(graph.duration.sum()), 3),
        "critical_path": round(float(length), 3),
    }


def measure(
    graph: ComputationGraph, *, evaluations: Callable[[int], int], max_ops: int
) -> dict[str, Any]:
    """Peaks and headroom of a graph in every setting, as the columns of a card, in bytes.

    ``program`` is program order on one device or, on two, with the ops balanced greedily over them
    in that order, whichever is less; ``cheap`` the best of program, depth-first and breadth-first
    order; ``best`` what ``auto`` finds; ``headroom`` is 100 (program / best - 1) percent.

    Args:
      evaluations: ops -> budget of the search.
      max_ops: settings in which the graph has more ops are left out.
    """
    columns: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        if graph.num_ops * setting.num_microbatches <= max_ops:
            found = _measure_one(
                microbatches(graph, setting.num_microbatches), setting, evaluations
            )
            columns |= {f"{column}_{name}": value for column, value in found.items()}
    return columns


def _measure_one(
    graph: ComputationGraph, setting: Setting, evaluations: Callable[[int], int]
) -> dict[str, Any]:
    problem = PlacementProblem(graph, setting.num_devices, "peak_memory")
    budget = Budget(evaluations(graph.num_ops))
    peaks = {order: _peak(simple.run_rule(problem, budget, order=order)) for order in _ORDERS}
    rule = min(peaks, key=peaks.__getitem__)
    best = min(peaks[rule], _peak(run_portfolio(problem, budget)))
    program = peaks["program_order"]
    return {
        "bound": bounds.peak_memory_bound(graph, setting.num_devices),
        "program": program,
        "cheap": peaks[rule],
        "rule": rule,
        "best": best,
        "headroom": round(100 * (program / best - 1), 3) if best else 0.0,
    }


_ORDERS = ("program_order", "depth_first", "breadth_first")


def _peak(found: Result) -> int:
    """Bytes of the fullest device, exact."""
    return int(found.schedule.cost)

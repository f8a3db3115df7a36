"""Orders of a module's instructions, best first by what XLA would allocate for them."""

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from regal_jax import api
from regal_jax.compiler.xla.buffers import allocate
from regal_jax.compiler.xla.module_orders import (
    ModuleOrder,
    instruction_order,
    reordered,
    sequenced,
    without_donations,
)
from regal_jax.compiler.xla.packing import temporary_bytes
from regal_jax.compiler.xla.search_graph import search_graph
from regal_jax.compiler.xla.settings import Search
from regal_jax.environments.placement import bounds
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.xla.text import Module
from regal_jax.search.orders.dynamic_programming import order_peak

MOST_OPS_OF_DP = 60
"""Ops up to which the exact dynamic programme is tried."""


class Candidate(NamedTuple):
    """An order of a module.

    Attributes:
      name: the method that it is by.
      order: of the computations that it changes.
      estimate: bytes of temporaries that XLA would allocate (``packing``).
    """

    name: str
    order: ModuleOrder
    estimate: int


def estimated(module: Module, order: ModuleOrder) -> int:
    """Bytes of temporaries that XLA would allocate for a module in another order."""
    return temporary_bytes(allocate(reordered(module, order)))


def candidates(module: Module, search: Search, worth: int = 1) -> list[Candidate]:
    """Orders by every method, the best first, none twice.

    Bodies of loops, branches and calls are ordered before what runs them, each by its best method
    by the estimate. Where no order can save so many bytes (``worth``), all stays as it is. Raises
    OptionError where a method doesn't fit, such as one without a policy for one device.
    """
    deadline = time.perf_counter() + (search.time_limit or float("inf"))
    chosen: ModuleOrder = {}
    for name in sequenced(module):
        base = reordered(module, chosen)
        found = [
            Candidate(method, order, estimated(base, order))
            for method, sequence in _sequences(base, name, search, deadline, worth)
            for order in ({**chosen, name: sequence},)
        ]
        best = sorted(_distinct(found), key=lambda candidate: candidate.estimate)
        if name != module.entry and best and best[0].estimate < estimated(base, {}):
            chosen = best[0].order
    if chosen:
        best.append(Candidate("bodies", chosen, estimated(module, chosen)))
    return sorted(best, key=lambda candidate: candidate.estimate)


def better_order(module: Module, search: Search) -> ModuleOrder:
    """The best order of a module by the estimate; nothing if its own needs no more."""
    module = without_donations(module)
    best = next(iter(candidates(module, search)), None)
    return best.order if best and best.estimate < estimated(module, {}) else {}


def headroom(module: Module) -> int:
    """Bytes that an order of one of its computations may save at most."""
    return max(_headroom(search_graph(module, name)) for name in sequenced(module))


def _sequences(
    module: Module, name: str, search: Search, deadline: float, worth: int
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(method, order of the instructions) of one computation."""
    graph = search_graph(module, name)
    if _headroom(graph) < worth:
        return
    for method in search.methods:
        left = deadline - time.perf_counter()
        if left <= 0 or (method == "dp" and graph.num_ops > MOST_OPS_OF_DP):
            continue
        try:
            schedule = api.optimize(
                graph,
                num_devices=1,
                method=method,
                seed=search.seed,
                evaluations=search.evaluations if method == "auto" else None,
                time_limit=None if left == float("inf") else left,
            )
        except OptionError:
            if method == "dp":  # has more states than it can hold
                continue
            raise
        ops = schedule.ops_in_order().tolist()
        yield method, instruction_order(module.computations[name], graph, ops)


def _headroom(graph: ComputationGraph) -> int:
    """Bytes that the order there is needs above the lower bound of all."""
    if graph.num_ops < 3:
        return 0
    peak = order_peak(graph, np.arange(graph.num_ops))
    return int(peak) - int(bounds.peak_memory_bound(graph, 1))


def _distinct(found: Sequence[Candidate]) -> list[Candidate]:
    """Without orders that are there already."""
    return list({tuple(sorted(one.order.items())): one for one in reversed(found)}.values())

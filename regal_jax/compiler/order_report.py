"""The order of a program's ops that needs least memory, and what it saves by the cost model."""

import dataclasses

import numpy as np

from regal_jax.api import optimize
from regal_jax.compiler.xla.zero_cost_ops import pack
from regal_jax.environments.placement import min_cut
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.orders.dynamic_programming import order_peak


@dataclasses.dataclass(frozen=True)
class OrderReport:
    """What an order saves by the cost model (BUILD_NOTES.md, section 3), in bytes.

    Attributes:
      peak_before: of the order that the program had.
      peak_after: of its order now, at most ``peak_before``.
      lower_bound: no order needs less.
      resident: part of all of these: the inputs and parameters, in memory from the start.
    """

    peak_before: int
    peak_after: int
    lower_bound: int
    resident: int


def least_memory_order(
    graph: ComputationGraph,
    *,
    method: str,
    seed: int,
    evaluations: int | None,
    time_limit: float | None,
) -> tuple[np.ndarray, OrderReport]:
    """int64[O], the best order found of a graph whose ops are numbered in program order.

    That is the program's own, ``0..O-1``, unless a better one is found. Options are those of
    ``regal_jax.optimize``. Raises OptionError.
    """
    own = np.arange(graph.num_ops)
    before = order_peak(graph, own)
    packed = pack(graph)
    found = optimize(
        packed.graph,
        objective="peak_memory",
        num_devices=1,
        method=method,
        seed=seed,
        evaluations=evaluations,
        time_limit=time_limit,
    )
    order = packed.unpacked(found.ops_in_order().tolist())
    after = order_peak(graph, order)
    if after >= before:
        order, after = own, before
    assert found.lower_bound is not None
    return order, OrderReport(before, after, int(found.lower_bound), min_cut.given_bytes(graph))

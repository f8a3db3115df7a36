"""Lower bounds that no schedule can beat; reported with every result as a gap."""

import math

import numpy as np

from regal_jax.environments.placement import min_cut
from regal_jax.environments.platform import Platform
from regal_jax.graphs.computation_graph import ComputationGraph

MOST_FLOWS, MOST_WORK = 400, 4_000_000
"""Ops that are tried for a bound, and times the network's nodes: all that matter in most graphs,
and seconds in others."""


def peak_memory_bound(graph: ComputationGraph, num_devices: int) -> int:
    """Bytes that the fullest of D devices needs under any placement and order.

    The larger of ``working_set_bound`` and what is there at some op in any order (``min_cut``),
    spread evenly over the devices.
    """
    flows = max(1, min(MOST_FLOWS, MOST_WORK // (1 + graph.num_ops + graph.num_tensors)))
    together = min_cut.min_cut_bound(graph, most_flows=flows).num_bytes
    return max(working_set_bound(graph, num_devices), -(-together // num_devices))


def working_set_bound(graph: ComputationGraph, num_devices: int) -> int:
    """The larger of any op's working set (inputs, outputs, workspace: all on one device), and all
    persistent bytes at the end, spread evenly over the devices."""
    kept = graph.persistent & ((graph.consumers.lengths() > 0) | (graph.producer >= 0))
    working = graph.workspace + graph.inputs.sums(graph.size) + graph.outputs.sums(graph.size)
    at_end = int(graph.size[kept].sum())
    return max(int(working.max(initial=0)), -(-at_end // num_devices))


def makespan_bound(graph: ComputationGraph, num_devices: int) -> float:
    """us that D devices need at least: total work / D, and the longest path of durations.

    Total work is lowered by what rounding to float64 may take from a schedule's makespan.
    """
    finish = np.zeros(graph.num_ops)
    for op in graph.topological_order.tolist():
        producers = graph.producer[graph.inputs.row(op)]
        start = finish[producers[producers >= 0]].max(initial=0.0)
        finish[op] = start + graph.duration[op]
    return float(max(_least_work(graph.duration) / num_devices, finish.max(initial=0.0)))


def _least_work(duration: np.ndarray) -> float:
    """The sum of durations, not more than any order of additions gives."""
    work = math.fsum(duration)
    exact = work < 2.0**32 and np.all(np.ldexp(duration, 20) % 1 == 0)
    return work if exact else work * (1 - (len(duration) + 2) * float(np.finfo(np.float64).eps))


def lower_bound(graph: ComputationGraph, objective: str, platform: Platform) -> float:
    """The bound for an objective: bytes of the fullest device, or us."""
    if objective == "makespan":
        return makespan_bound(graph, platform.num_devices)
    return peak_memory_bound(graph, platform.num_devices)

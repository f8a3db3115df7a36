"""Lower bounds that no schedule can beat; reported with every result as a gap."""

import numpy as np

from regal_jax.environments.placement import arrivals, min_cut
from regal_jax.environments.platform import Platform
from regal_jax.environments.rcpsp import bounds as machine_bounds
from regal_jax.graphs.computation_graph import ComputationGraph

MOST_FLOWS, MOST_WORK = 400, 4_000_000
"""Ops that are tried for a bound, and times the network's nodes: all that matter in most graphs,
and seconds in others."""


def peak_memory_bound(
    graph: ComputationGraph, num_devices: int, together: int | None = None
) -> int:
    """Bytes that the fullest of D devices needs under any placement and order.

    The largest of ``working_set_bound``, ``at_end_bound``, ``parameters_bound`` and of
    ``together_bound``, which is computed unless given, spread evenly over the devices.
    """
    together = together_bound(graph) if together is None else together
    placed = [bound(graph, num_devices) for bound in PLACEMENT_BOUNDS.values()]
    return max(*placed, -(-together // num_devices))


def together_bound(graph: ComputationGraph) -> int:
    """Bytes that are there at some op in any order, on all devices together (``min_cut``)."""
    return quick_cut(graph).num_bytes


def quick_cut(graph: ComputationGraph) -> min_cut.CutBound:
    """The largest minimum cut of as many ops as can be tried in seconds."""
    flows = max(1, min(MOST_FLOWS, MOST_WORK // (1 + graph.num_ops + graph.num_tensors)))
    return min_cut.min_cut_bound(graph, most_flows=flows)


def working_set_bound(graph: ComputationGraph, num_devices: int) -> int:
    """The largest working set of an op: inputs, outputs and workspace, all on one device."""
    working = graph.workspace + graph.inputs.sums(graph.size) + graph.outputs.sums(graph.size)
    return int(working.max(initial=0))


def at_end_bound(graph: ComputationGraph, num_devices: int) -> int:
    """All persistent bytes at the end, spread evenly over the devices."""
    kept = graph.persistent & ((graph.consumers.lengths() > 0) | (graph.producer >= 0))
    return -(-int(graph.size[kept].sum()) // num_devices)


def parameters_bound(graph: ComputationGraph, num_devices: int) -> int:
    """What the fullest device needs wherever the parameters are (persistent, without producer).

    They are always there, each at least on the device of one of its readers. A device that runs an
    op has the rest of the op's working set, h(op), on top of its parameters. Some device runs the
    op with the largest; another, if all its ops have h <= level, holds but parameters with a reader
    that is no larger than that. So within a limit it holds at most min(limit - level, the bytes of
    those parameters), and D - 1 such devices leave the rest to the first. (Fractions of parameters
    count, so it is a relaxation.)
    """
    parameter = graph.persistent & (graph.producer < 0) & (graph.consumers.lengths() > 0)
    rest = graph.inputs.sums(np.where(parameter, 0, graph.size))
    rest += graph.outputs.sums(graph.size) + graph.workspace
    largest, total = int(rest.max(initial=0)), int(graph.size[parameter].sum())
    level, held = _levels(graph, np.flatnonzero(parameter), rest)
    low, high = largest, largest + total
    while low < high:
        limit = (low + high) // 2
        elsewhere = 0
        for _ in range(num_devices - 1):
            room = elsewhere + np.maximum(limit - level, 0)
            elsewhere = int(np.minimum(held, room).max(initial=0))
        if total - elsewhere <= limit - largest:
            high = limit
        else:
            low = limit + 1
    return low


def _levels(graph: ComputationGraph, parameters: np.ndarray, rest: np.ndarray):
    """(int64[L] levels, rising; int64[L] bytes of the parameters with a reader up to there)."""
    least = np.full(graph.num_tensors, np.iinfo(np.int64).max)
    np.minimum.at(least, graph.consumers.row_of_value(), rest[graph.consumers.values])
    level, which = np.unique(least[parameters], return_inverse=True)
    held = np.zeros(len(level), np.int64)
    np.add.at(held, which, graph.size[parameters])
    return level, np.cumsum(held)


PLACEMENT_BOUNDS = {
    "working set": working_set_bound,
    "bytes at the end": at_end_bound,
    "parameters": parameters_bound,
}
"""Those that need no witness: (graph, D) -> bytes, in linear time."""


def makespan_bound(graph: ComputationGraph, platform: Platform) -> float:
    """us that identical devices need at least, whatever their memory."""
    return strongest_makespan(graph, platform).value


def strongest_makespan(graph: ComputationGraph, platform: Platform) -> machine_bounds.Shown:
    """The largest bound of D units of one machine type, and where transfers take time, of an op or
    of work between heads and tails with them (``arrivals``)."""
    machines = as_machines(graph, platform.num_devices)
    found = [machine_bounds.strongest(machines)]
    if graph.num_ops and (platform.latency or platform.per_byte):
        late = ends(graph, platform)
        op = int(np.argmax(late.heads + graph.duration + late.tails))
        found.append(machine_bounds.Shown(between(graph, op, late), "arrivals", (op,)))
        found += machine_bounds.by_work(machines, late)
    return max(found, key=lambda shown: shown.value)


def ends(graph: ComputationGraph, platform: Platform) -> machine_bounds.Ends:
    """Heads and tails of ops on identical devices; one device transfers nothing."""
    alone = platform.num_devices == 1
    return machine_bounds.path_ends(graph) if alone else arrivals.ends(graph, platform)


def between(graph: ComputationGraph, op: int, late: machine_bounds.Ends) -> float:
    """us: an op between its head and its tail, less what rounding may have added."""
    value = float(late.heads[op] + graph.duration[op] + late.tails[op])
    return value if late.exact else value * (1.0 - machine_bounds.rounding(graph))


def as_machines(graph: ComputationGraph, num_devices: int) -> ComputationGraph:
    """The graph on D units of one machine type, which are identical devices but for transfers."""
    one = np.ones(graph.num_ops, np.int64)
    return graph.replace(capacity=np.array([num_devices]), machine_type=0 * one, demand=one)


def lower_bound(graph: ComputationGraph, objective: str, platform: Platform) -> float:
    """The bound for an objective: bytes of the fullest device, or us."""
    if objective == "makespan":
        return makespan_bound(graph, platform)
    return peak_memory_bound(graph, platform.num_devices)

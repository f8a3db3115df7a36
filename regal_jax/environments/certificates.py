"""Lower bounds with witnesses, which anybody can check without searching."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from regal_jax.environments.base import has_machines
from regal_jax.environments.placement import bounds, min_cut, set_bound
from regal_jax.environments.platform import Platform
from regal_jax.environments.rcpsp import bounds as machine_bounds
from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.environments.schedule import Objective, check_objective
from regal_jax.errors import BoundError, OptionError
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph

MINIMUM_CUT, OF_A_SET = "minimum cut", "first or last of a set"


@dataclasses.dataclass(frozen=True, eq=False)
class Bound:
    """No schedule of a graph costs less.

    Attributes:
      value: bytes of the fullest device, or us.
      kind: why. Of peak memory "minimum cut", "first or last of a set" (see
        ``placement.set_bound``), "working set", "bytes at the end", "parameters" (see
        ``placement.bounds``); of the makespan "path" and "work" (see ``rcpsp.bounds``), and where
        transfers take time "arrivals" (see ``placement.arrivals``).
      witness: a ``CutBound`` (an op and a flow), a ``SetBound`` (ops and flows), the ops of a path
        or that share the work, the one op of arrivals, or None for what a graph shows without one.
      objective, num_devices: of the schedules; the number of machine types for graphs with them.
      latency, per_byte: of their transfers, see ``Platform``.
    """

    value: float
    kind: str
    witness: Any
    objective: Objective
    num_devices: int
    latency: float = 0.0
    per_byte: float = 0.0


def lower_bound(
    graph: ComputationGraph,
    *,
    objective: Objective = "peak_memory",
    num_devices: int | None = None,
    latency: float = 0.0,
    per_byte: float = 0.0,
    order: np.ndarray | None = None,
) -> Bound:
    """The strongest bound that has a witness, whatever the memory capacities.

    Args:
      graph: the graph.
      objective: "peak_memory" or "makespan"; the latter on the graph's machine types, if it has
        any.
      num_devices: D, 2 unless given, or the number of machine types.
      latency, per_byte: of transfers between devices (``Platform``), which make the makespan's
        bound larger. Peak memory and machine types have none.
      order: int[O], a valid order of the ops, such as ``Schedule.ops_in_order``. The less memory it
        needs on one device, the sooner the bound of a large graph is found; it is the same bound.

    Raises:
      OptionError: for an option out of range. GraphError: for a graph that ``MachineProblem``
        refuses, such as one with an op that its machine type can't hold.
    """
    check_objective(objective)
    devices = _num_devices(graph, objective, num_devices)
    if has_machines(graph, objective):
        shown = machine_bounds.strongest(graph)
        return Bound(shown.value, shown.kind, shown.ops, objective, devices)
    if objective == "makespan":
        platform = Platform(devices, latency=latency, per_byte=per_byte)
        shown = bounds.strongest_makespan(graph, platform)
        return Bound(shown.value, shown.kind, shown.ops, objective, devices, latency, per_byte)
    order = graph.topological_order if order is None else np.asarray(order)
    precedence.check_order(graph, order, "order")
    cut = min_cut.min_cut_bound(graph, order=order)
    found = [Bound(-(-cut.num_bytes // devices), MINIMUM_CUT, cut, objective, devices)]
    for kind, bytes_of in bounds.PLACEMENT_BOUNDS.items():
        found.append(Bound(bytes_of(graph, devices), kind, None, objective, devices))
    ends = set_bound.set_bound(min_cut.Network(graph), order, cut.num_bytes)
    if ends.ops.size:
        of_set = set_bound.certified(graph, ends.ops, ends.is_last)
        found.append(Bound(-(-of_set.num_bytes // devices), OF_A_SET, of_set, objective, devices))
    return max(found, key=lambda bound: bound.value)


def check_bound(graph: ComputationGraph, bound: Bound) -> None:
    """Verifies a bound by its witness, in linear time or nearly. Raises BoundError, and OptionError
    for devices and transfers out of range."""
    shows = _SHOWN.get(bound.objective, {}).get(bound.kind)
    if shows is None:
        raise BoundError(f"kind: {bound.kind!r} is no bound of {bound.objective!r}")
    devices = _num_devices(graph, bound.objective, bound.num_devices)
    platform = Platform(devices, latency=bound.latency, per_byte=bound.per_byte)
    shown = shows(graph, bound.witness, platform)
    if not bound.value <= shown:
        raise BoundError(f"value: {bound.value} is claimed, its {bound.kind} shows {shown}")


def _num_devices(graph: ComputationGraph, objective: Objective, asked: int | None) -> int:
    if not has_machines(graph, objective):
        return Platform(2 if asked is None else asked).num_devices
    own = MachineProblem(graph).num_types
    if asked not in (None, own):
        raise OptionError(f"num_devices is {asked}, but the graph has {own} machine types")
    return own


def _by_flows(
    kind: str,
    made: type[min_cut.CutBound] | type[set_bound.SetBound],
    check: Callable[[ComputationGraph, Any], None],
):
    """What a ``made`` of bytes on all devices together shows, once it is checked."""

    def shown(graph: ComputationGraph, witness: Any, platform: Platform) -> int:
        if not isinstance(witness, made):
            raise BoundError(f"witness: a {kind} has a {made.__name__}")
        check(graph, witness)
        return -(-witness.num_bytes // platform.num_devices)

    return shown


def _path(graph: ComputationGraph, witness: Any, platform: Platform) -> float:
    ops = _ops(graph, witness)
    pairs = set(map(tuple, graph.op_pairs.tolist()))
    if not all(pair in pairs for pair in itertools.pairwise(ops)):
        raise BoundError("witness: ops of the path don't follow each other")
    return machine_bounds.length_of(graph, ops)


def _work(graph: ComputationGraph, witness: Any, platform: Platform) -> float:
    ops, machines, ends = _ops(graph, witness), graph, [machine_bounds.path_ends(graph)]
    if graph.capacity is None:
        machines = bounds.as_machines(graph, platform.num_devices)
        ends.append(bounds.ends(graph, platform))
    if len({int(machines.machine_type[op]) for op in ops}) > 1 or len(set(ops)) < len(ops):
        raise BoundError("witness: ops that share work are of one machine type, each once")
    return max(machine_bounds.work_of(machines, ops, some) for some in ends)


def _arrivals(graph: ComputationGraph, witness: Any, platform: Platform) -> float:
    ops = _ops(graph, witness)
    if len(ops) != 1 or graph.capacity is not None:
        raise BoundError("witness: arrivals are of one op, on identical devices")
    return bounds.between(graph, ops[0], bounds.ends(graph, platform))


def _ops(graph: ComputationGraph, witness: Any) -> tuple[int, ...]:
    try:
        ops = np.asarray(witness if witness is not None else [None])
    except ValueError:  # rows of different lengths
        ops = np.array([None])
    fits = ops.ndim == 1 and (not ops.size or ops.dtype.kind == "i")
    if not fits or np.any(ops < 0) or np.any(ops >= graph.num_ops):
        raise BoundError(f"witness: must be numbers of ops, 0 to {graph.num_ops - 1}")
    return tuple(ops.tolist())


def _placement(bytes_of: Callable[[ComputationGraph, int], int]):
    return lambda graph, witness, platform: bytes_of(graph, platform.num_devices)


_SHOWN: Mapping[str, Mapping[str, Callable[[ComputationGraph, Any, Platform], float]]] = {
    "peak_memory": {
        MINIMUM_CUT: _by_flows(MINIMUM_CUT, min_cut.CutBound, min_cut.check_cut),
        OF_A_SET: _by_flows(OF_A_SET, set_bound.SetBound, set_bound.check_set),
        **{kind: _placement(bytes_of) for kind, bytes_of in bounds.PLACEMENT_BOUNDS.items()},
    },
    "makespan": {"path": _path, "work": _work, "arrivals": _arrivals},
}
"""What a witness shows: (graph, witness, platform) -> bytes or us."""

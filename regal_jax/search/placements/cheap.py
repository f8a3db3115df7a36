"""Simple orders times simple placements: schedules to begin from, or to learn from."""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.schedule import Objective, Schedule
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.list_scheduling import heuristics
from regal_jax.search.orders import rules
from regal_jax.search.placements import partitioning, replicas

_LIST_HEURISTICS = (heuristics.etf, heuristics.heft)

_POWERS = (0.5, 0.75, 1.0, 1.4, 2.0)
"""Of the shares of the ops, 1/D to (D - 1)/D, at which a pipeline is cut."""


def cheap_schedules(
    graph: ComputationGraph,
    num_devices: int,
    objective: Objective,
    *,
    seed: int = 0,
    orders: Sequence[np.ndarray] | None = None,
) -> Iterator[Schedule]:
    """Orders, by default the simple ones, times simple placements, without repeats; each is made
    when it is asked for.

    Placements: one device, greedily balanced, whole components, replicas apart, few bytes between
    devices (without and with copies of what several devices read), and pipelines: cuts of the
    order, or of the ops by distance to the nearest end, into as many parts as devices.
    """
    weight = rules.op_weights(graph, objective).astype(float)
    folded = precedence.nearest_end_first(graph)
    shared = _placements_of_any_order(graph, weight, num_devices)
    seen: set[tuple[bytes, bytes]] = set()
    for order in orders or (rule(graph, seed) for rule in rules.ORDERS.values()):
        own = _placements_of_order(graph, (order, folded), weight, num_devices)
        for placement in itertools.chain((one() for one in shared), own):
            for eager in (False, True):
                schedule = rules.build_schedule(
                    graph,
                    order,
                    placement,
                    objective=objective,
                    num_devices=num_devices,
                    eager=eager,
                )
                key = (placement.tobytes(), schedule.steps.tobytes())
                if key not in seen:
                    seen.add(key)
                    yield schedule


def cheap_candidates(problem: PlacementProblem, *, seed: int = 0) -> Iterator[Schedule]:
    """What searches begin with: ``cheap_schedules`` and, for the makespan, before them those of two
    list heuristics."""
    graph, objective = problem.graph, problem.objective
    heuristic = _LIST_HEURISTICS if objective == "makespan" else ()
    yield from (rule(graph, problem.platform) for rule in heuristic)
    yield from cheap_schedules(graph, problem.num_devices, objective, seed=seed)


def _placements_of_any_order(graph, weight, num_devices: int) -> list[Callable[[], np.ndarray]]:
    """Each is found when it is first asked for: the last ones take seconds of large graphs."""
    several: list[Callable[..., np.ndarray]] = [
        rules.whole_components,
        replicas.replicas_apart,
        *(functools.partial(partitioning.kernighan_lin, copies=copies) for copies in (False, True)),
    ]
    found = [functools.partial(rules.single_device, graph)]
    if num_devices > 1:
        found += [functools.partial(one, graph, weight, num_devices) for one in several]
    return [functools.cache(one) for one in found]


def _placements_of_order(graph, sequences, weight, num_devices: int) -> Iterator[np.ndarray]:
    """Placements for an order; ``sequences`` are the order and what else to cut into pipelines."""
    if num_devices == 1:
        return
    yield rules.greedily_balanced(graph, sequences[0], weight, num_devices)
    even = np.arange(1, num_devices) / num_devices
    for sequence in sequences:
        for power in _POWERS:
            yield rules.contiguous(sequence, weight, even**power)

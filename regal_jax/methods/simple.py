"""Cheap schedules behind ``optimize``: an order by a rule, on simple placements."""

from collections.abc import Iterable

import numpy as np

from regal_jax.environments.platform import Platform
from regal_jax.environments.problem import PlacementProblem
from regal_jax.environments.schedule import Objective, Schedule
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.methods.base import Budget, Found, best_schedule, check_evaluations
from regal_jax.search import priority_rules


def run_rule(problem: PlacementProblem, budget: Budget, *, order: str) -> Found:
    """An order of ``priority_rules`` on the better of two placements: greedily balanced, or whole
    on one device. Costs two evaluations."""
    graph, num_devices = problem.graph, problem.num_devices
    sequence = priority_rules.ORDERS[order](graph, budget.seed)
    weight = priority_rules.op_weights(graph, problem.objective)
    placements = [
        priority_rules.greedily_balanced(graph, sequence, weight, num_devices),
        priority_rules.single_device(graph),
    ]
    return best_schedule(problem, budget, on_placements(problem, sequence, placements))


def on_placements(
    problem: PlacementProblem, order: np.ndarray, placements: Iterable[np.ndarray]
) -> list[Schedule]:
    """The schedules of one order on several placements."""
    return [
        priority_rules.build_schedule(
            problem.graph,
            order,
            placement,
            objective=problem.objective,
            num_devices=problem.num_devices,
        )
        for placement in placements
    ]


def best_simple_schedule(
    graph: ComputationGraph, objective: Objective, platform: Platform
) -> Schedule:
    """What to hold a search against: program, depth-first or breadth-first order, whichever is
    best, each on the better of a greedily balanced placement and a single device."""
    problem = PlacementProblem.on(graph, platform, objective)
    found = {
        order: run_rule(problem, Budget(evaluations=0), order=order)
        for order in ("program_order", "depth_first", "breadth_first")
    }
    best = min(found, key=lambda order: found[order].cost)
    return problem.decode(found[best].chromosome, method=best)


def cheapest(problem: PlacementProblem, budget: Budget) -> Found:
    """The best of the cheap schedules, at one evaluation each; as many as the budget allows."""
    check_evaluations(budget.evaluations)
    candidates = cheap_schedules(problem, budget.seed)[: budget.evaluations]
    return best_schedule(problem, budget, candidates)


def cheap_schedules(problem: PlacementProblem, seed: int) -> list[Schedule]:
    """Simple orders times simple placements, without repeats.

    Placements: one device, greedily balanced, whole components, and pipelines: cuts of the
    order, or of the ops by distance to the nearest end, into as many parts as devices.
    """
    graph, num_devices = problem.graph, problem.num_devices
    weight = priority_rules.op_weights(graph, problem.objective).astype(float)
    folded = priority_rules.nearest_end_first(graph)
    schedules: dict[tuple[bytes, bytes], Schedule] = {}
    for rule in priority_rules.ORDERS.values():
        order = rule(graph, seed)
        for placement in _cheap_placements(graph, (order, folded), weight, num_devices):
            for eager in (False, True):
                schedule = priority_rules.build_schedule(
                    graph,
                    order,
                    placement,
                    objective=problem.objective,
                    num_devices=num_devices,
                    eager=eager,
                )
                key = (placement.tobytes(), schedule.steps.tobytes())
                schedules.setdefault(key, schedule)
    return list(schedules.values())


def _cheap_placements(graph, sequences, weight, num_devices: int) -> list[np.ndarray]:
    """Placements for an order; ``sequences`` are the order and what else to cut into pipelines."""
    placements = [priority_rules.single_device(graph)]
    if num_devices > 1:
        placements.append(
            priority_rules.greedily_balanced(graph, sequences[0], weight, num_devices)
        )
        placements.append(priority_rules.whole_components(graph, weight, num_devices))
        even = np.arange(1, num_devices) / num_devices
        for sequence in sequences:
            for power in (0.5, 0.75, 1.0, 1.4, 2.0):
                placements.append(priority_rules.contiguous(sequence, weight, even**power))
    return placements

"""Cheap schedules behind ``optimize``: an order by a rule, on simple placements."""

import functools
import itertools
from collections.abc import Iterable

import numpy as np

from regal_jax import registry
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Objective, Schedule
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.options import Budget, Result
from regal_jax.search.base import best_of_schedules
from regal_jax.search.orders import rules, xla_orders
from regal_jax.search.placements.cheap import cheap_candidates


def run_rule(problem: PlacementProblem, budget: Budget, *, order: str) -> Result:
    """An order by a rule, of ``rules`` or ``xla_orders``, on the better of two placements:
    greedily balanced, or whole on one device. Costs two evaluations."""
    graph, num_devices = problem.graph, problem.num_devices
    sequence = (rules.ORDERS | xla_orders.ORDERS)[order](graph, budget.seed)
    weight = rules.op_weights(graph, problem.objective)
    placements = [
        rules.greedily_balanced(graph, sequence, weight, num_devices),
        rules.single_device(graph),
    ]
    return best_of_schedules(problem, budget, on_placements(problem, sequence, placements))


for _order in ("depth_first", "breadth_first", "random_order", "lpmf", "xla_list", "xla_dfs"):
    registry.method(_order)(functools.partial(run_rule, order=_order))


def on_placements(
    problem: PlacementProblem, order: np.ndarray, placements: Iterable[np.ndarray]
) -> list[Schedule]:
    """The schedules of one order on several placements."""
    return [
        rules.build_schedule(
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
    return found[best].schedule.replace(method=best)


def cheapest(problem: PlacementProblem, budget: Budget) -> Result:
    """The best of the cheap schedules and, for the makespan, of two list heuristics' schedules, at
    one evaluation each; as many as the budget allows."""
    budget.check()
    candidates = cheap_candidates(problem, seed=budget.seed)
    return best_of_schedules(problem, budget, itertools.islice(candidates, budget.evaluations))

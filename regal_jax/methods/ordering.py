"""Methods that order the ops of one device for least peak memory: Topoformer's baselines
(neural_topological_ordering, section 5 and C.3)."""

import time

import numpy as np

from regal_jax import registry
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.methods import simple
from regal_jax.options import Budget, Result
from regal_jax.search.base import best_of_schedules
from regal_jax.search.orders import dynamic_programming, rules

SAMPLES = 16
"""Orders sampled, and beam width, in the paper's experiments (section 5)."""
BEAM_WIDTH = 100_000
"""Of the approximate dynamic programme (C.3)."""
RANDOM_ORDERS = 100
"""Of the random baseline (section 5)."""
DEPTH_FIRST_SECONDS = 60.0
"""Of the depth-first dynamic programme without a time limit; the paper's has an hour."""

PAPER = "neural_topological_ordering"


@registry.method("approximate_dp", evaluations=BEAM_WIDTH, paper=PAPER)
def run_approximate_dp(problem: PlacementProblem, budget: Budget) -> Result:
    """The approximate dynamic programme (C.3); evaluations are the states kept at each step."""
    check_problem(problem, "approximate_dp")
    found = dynamic_programming.beam_search(
        problem.graph, width=budget.evaluations, deadline=budget.deadline
    )
    return _of_result(problem, budget, found)


@registry.method("dp", paper=PAPER)
def run_dp(problem: PlacementProblem, budget: Budget) -> Result:
    """The exact dynamic programme, below the best cheap order's peak; for small graphs."""
    check_problem(problem, "dp")
    start = simple.cheapest(problem, budget._replace(evaluations=SAMPLES))
    found = dynamic_programming.beam_search(
        problem.graph, width=None, deadline=budget.deadline, upper_bound=int(start.cost)
    )
    if found.order is None or found.peak >= start.cost:
        return start._replace(lower_bound=start.cost if found.is_optimal else 0.0)
    return _of_result(problem, budget, found)


@registry.method("depth_first_dp", paper=PAPER)
def run_depth_first_dp(problem: PlacementProblem, budget: Budget) -> Result:
    """The depth-first dynamic programme (C.3), for a minute or until the time limit."""
    check_problem(problem, "depth_first_dp")
    deadline = min(budget.deadline, time.perf_counter() + DEPTH_FIRST_SECONDS)
    found = dynamic_programming.depth_first_dp(problem.graph, seed=budget.seed, deadline=deadline)
    return _of_result(problem, budget, found)


@registry.method("random_orders", evaluations=RANDOM_ORDERS, paper=PAPER)
def run_random_orders(problem: PlacementProblem, budget: Budget) -> Result:
    """The best of as many random orders as evaluations."""
    check_problem(problem, "random_orders")
    found = dynamic_programming.best_of_random(
        problem.graph, seed=budget.seed, orders=budget.evaluations
    )
    return _of_result(problem, budget, found)


def of_order(problem: PlacementProblem, order: np.ndarray) -> Result:
    """An order on one device, which is not charged."""
    return of_orders(problem, Budget(1), [order])


def _of_result(problem, budget: Budget, result: dynamic_programming.BeamResult) -> Result:
    found = of_orders(problem, budget, [np.asarray(result.order)])
    return found._replace(lower_bound=found.cost) if result.is_optimal else found


def of_orders(problem: PlacementProblem, budget: Budget, orders) -> Result:
    """The best of some orders on one device, at an evaluation each."""
    alone = [rules.single_device(problem.graph)]
    schedules = [
        schedule for order in orders for schedule in simple.on_placements(problem, order, alone)
    ]
    return best_of_schedules(problem, budget, schedules)


def check_problem(problem: PlacementProblem, name: str) -> None:
    """Raises OptionError, for a method, of another objective or several devices."""
    if problem.objective != "peak_memory" or problem.num_devices != 1:
        raise OptionError(
            f"{name} orders the ops of one device for peak memory: give --objective=peak_memory"
            " and --num_devices=1"
        )

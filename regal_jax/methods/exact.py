"""``exact``: the best order on one device, with a proof that there is none better."""

import math
import time

from regal_jax import registry
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.methods import ordering, simple
from regal_jax.options import Budget, Options, Result
from regal_jax.search.exact_order import search

FIRST_PART = 0.1
"""Of the budget, after which a beam looks for a better order."""


def some_seconds(num_ops: int, options: Options) -> int:
    """With a time limit, as much as fits in; else maximum flows for about ten seconds."""
    most = 10**9 if options.time_limit is not None else 100_000
    return max(5000, min(most, most * 1000 // max(num_ops, 1)))


@registry.method("exact", evaluations=some_seconds)
def run_exact(problem: PlacementProblem, budget: Budget) -> Result:
    """Orders of least peak memory by minimum cuts, safe commits and deductions.

    Anytime: the best order and the best bound close in on each other, and where they meet the order
    is optimal. One evaluation is a maximum flow, or as many sets of ops as there are ops.

    Raises OptionError for several devices, or another objective.
    """
    if not is_for(problem):
        raise OptionError(
            "exact orders the ops of one device for peak memory: give --objective=peak_memory"
            " and --num_devices=1"
        )
    start = simple.cheapest(problem, budget)
    found = prove(problem, part(budget, start, FIRST_PART), start)
    if found.cost > found.lower_bound:
        better = ordering.narrowly(problem, budget, found)
        found = prove(problem, budget, better._replace(lower_bound=found.lower_bound))
    return found


def is_for(problem: PlacementProblem) -> bool:
    """Whether it is a problem for ``prove``."""
    return problem.objective == "peak_memory" and problem.num_devices == 1


def prove(problem: PlacementProblem, budget: Budget, found: Result) -> Result:
    """Improves on the best order and on what is known of it, with what is left of the budget."""
    left = budget.evaluations - found.evaluations
    bound = max(problem.lower_bound, found.lower_bound)
    if left < 1 or found.cost <= bound:
        return found._replace(lower_bound=bound)
    graph = problem.graph
    proof = search.close_gap(
        graph,
        found.schedule.ops_in_order(),
        int(bound),
        most_states=left * max(graph.num_ops, 1),
        out_of_time=lambda: budget.out_of_time,
    )
    better = ordering.of_order(problem, proof.order) if proof.peak < found.cost else found
    spent = min(proof.states // max(graph.num_ops, 1) + 1, left)
    point = (found.evaluations + spent, better.cost)
    budget.on_progress(*point)
    return Result(better.schedule, point[0], (*found.history, point), float(proof.lower_bound))


def part(budget: Budget, found: Result, share: float, most: float = math.inf) -> Budget:
    """A share of what is left of the evaluations, at most so many, and of the time."""
    left = budget.evaluations - found.evaluations
    evaluations = found.evaluations + int(min(left * share, most))
    deadline = time.perf_counter() + budget.seconds_left * share
    return budget._replace(evaluations=evaluations, deadline=deadline)

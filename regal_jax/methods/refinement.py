"""Improving a schedule behind ``optimize``: local search from it, or block moves."""

import jax

from regal_jax import registry
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.options import Budget, Result, best_of
from regal_jax.search import base
from regal_jax.search.local_search import block_moves, search


@registry.method("local_search", paper="regal_transfer_learning, 4.2")
def run_local_search(problem: PlacementProblem, budget: Budget) -> Result:
    """Local search from random solutions (section 4.2), which evaluates moves incrementally."""
    return search.search(problem, budget)


def polish(problem: PlacementProblem, budget: Budget, start: Result) -> Result:
    """Spends what is left of the budget on local search from the best schedule so far."""
    left = budget.after(start)
    if left.evaluations < 1 or left.out_of_time:
        return start
    begin = (start.schedule.ops_in_order(), start.schedule.placement)
    return best_of(start, search.search(problem, left, start=begin))


def climb(problem: PlacementProblem, budget: Budget, start: Result) -> Result:
    """Spends what is left of the budget on block moves from the best schedule so far."""
    left = budget.after(start)
    if left.evaluations < _NEIGHBOURS or problem.graph.num_ops == 0:
        return start
    spec = problem.spec
    algorithm = block_moves.algorithm(spec.num_ops, spec.num_devices, _NEIGHBOURS)
    params = block_moves.ClimbParams(problem.graph.num_ops, start.cost)
    known = problem.encode(start.schedule)[None]
    climbed = base.run(
        jax.random.key(budget.seed), algorithm, problem, left, params=params, known=known
    )
    return best_of(start, climbed) if climbed.evaluations else start


_NEIGHBOURS = 100

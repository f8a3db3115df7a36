"""Published heuristics behind ``optimize`` that need no search, or one of their own."""

from regal_jax.environments.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.methods.base import Budget, Found, best_schedule
from regal_jax.methods.simple import on_placements
from regal_jax.search import makespan_heuristics, partitioning, priority_rules, xla_orders


def run_list_heuristic(problem: PlacementProblem, budget: Budget, *, name: str) -> Found:
    """A list heuristic for the makespan; one evaluation. OptionError for another objective."""
    if problem.objective != "makespan":
        raise OptionError(f"{name} is for the objective makespan, not {problem.objective}")
    schedule = makespan_heuristics.HEURISTICS[name](problem.graph, problem.platform)
    return best_schedule(problem, budget, [schedule])


def run_partition_dfs(problem: PlacementProblem, budget: Budget) -> Found:
    """GP+DFS (4.2): devices by Kernighan-Lin's partitioning, the order by XLA's depth-first search.

    One evaluation. What is balanced between devices are bytes, or for the makespan durations.
    """
    return _partitioned(problem, budget, partitioning.kernighan_lin)


def run_metis_dfs(problem: PlacementProblem, budget: Budget) -> Found:
    """The same with METIS's partitioning; needs the extra ``solvers``."""
    return _partitioned(problem, budget, partitioning.metis)


def _partitioned(problem: PlacementProblem, budget: Budget, partition) -> Found:
    graph = problem.graph
    weight = priority_rules.op_weights(graph, problem.objective).astype(float)
    placement = partition(graph, weight, problem.num_devices, seed=budget.seed)
    order = xla_orders.xla_dfs(graph)
    return best_schedule(problem, budget, on_placements(problem, order, [placement]))

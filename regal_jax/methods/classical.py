"""Published heuristics behind ``optimize`` that need no search, or one of their own."""

import functools
import math

from regal_jax import registry
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.methods import simple
from regal_jax.methods.simple import on_placements
from regal_jax.options import Budget, Result
from regal_jax.search.base import best_of_schedules
from regal_jax.search.cp_sat import placement as cp_sat_placement
from regal_jax.search.list_scheduling import heuristics
from regal_jax.search.orders import rules, xla_orders
from regal_jax.search.placements import partitioning


def run_list_heuristic(problem: PlacementProblem, budget: Budget, *, name: str) -> Result:
    """A list heuristic for the makespan; one evaluation. OptionError for another objective."""
    if problem.objective != "makespan":
        raise OptionError(f"{name} is for the objective makespan, not {problem.objective}")
    schedule = heuristics.HEURISTICS[name](problem.graph, problem.platform)
    return best_of_schedules(problem, budget, [schedule])


for _name in ("critical_path", "heft", "cpop", "etf", "hbmct"):
    registry.method(_name)(functools.partial(run_list_heuristic, name=_name))


@registry.method("partition_dfs", paper="regal_transfer_learning, 4.2")
def run_partition_dfs(problem: PlacementProblem, budget: Budget) -> Result:
    """GP+DFS (4.2): devices by Kernighan-Lin's partitioning, the order by XLA's depth-first search.

    One evaluation. What is balanced between devices are bytes, or for the makespan durations.
    """
    return _partitioned(problem, budget, partitioning.kernighan_lin)


@registry.method("metis_dfs", paper="regal_transfer_learning, 4.2")
def run_metis_dfs(problem: PlacementProblem, budget: Budget) -> Result:
    """The same with METIS's partitioning; needs the extra ``solvers``."""
    return _partitioned(problem, budget, partitioning.metis)


@registry.method("mtkahypar_dfs")
def run_mtkahypar_dfs(problem: PlacementProblem, budget: Budget) -> Result:
    """The same with Mt-KaHyPar's partitioning (ours); needs the extra ``solvers``."""
    return _partitioned(problem, budget, partitioning.mtkahypar)


@registry.method("cp_sat", paper="regal_transfer_learning, 4.2")
def run_cp_sat(problem: PlacementProblem, budget: Budget) -> Result:
    """CP-SAT (4.2), from the best of the simple orders and, for the makespan, ETF and HEFT; for a
    minute, or until the time limit. Needs the extra ``solvers``.

    The schedules it begins from are its evaluations. Its proven bound goes into the schedule's
    ``lower_bound``; where the cost is no more than that, it is optimal.
    """
    start = simple.cheapest(problem, budget._replace(evaluations=_STARTS))
    solution = cp_sat_placement.solve(
        problem.graph,
        problem.platform,
        problem.objective,
        seconds=max(min(budget.seconds_left, CP_SAT_SECONDS), 0.0),
        hint=start.schedule,
        seed=budget.seed,
    )
    bound = solution.bound if math.isfinite(solution.bound) else 0.0
    if solution.schedule is None or solution.schedule.cost >= start.cost:
        return start._replace(lower_bound=bound)
    point = (start.evaluations + 1, float(solution.schedule.cost))
    budget.on_progress(*point)
    return Result(solution.schedule, point[0], (*start.history, point), bound)


CP_SAT_SECONDS = 60.0
_STARTS = 60


def _partitioned(problem: PlacementProblem, budget: Budget, partition) -> Result:
    graph = problem.graph
    weight = rules.op_weights(graph, problem.objective).astype(float)
    placement = partition(graph, weight, problem.num_devices, seed=budget.seed)
    order = xla_orders.xla_dfs(graph)
    return best_of_schedules(problem, budget, on_placements(problem, order, [placement]))

"""``recompute``: ops of one device run again, so that a graph fits with the least more work."""

import functools
import time
from collections.abc import Sequence

import numpy as np

from regal_jax import registry
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.recompute.bounds import least_memory
from regal_jax.environments.recompute.instance import MOST_RUNS
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import OptionError
from regal_jax.methods import simple
from regal_jax.options import Budget, Result, some_seconds
from regal_jax.search.cp_sat import recompute as cp_sat_recompute
from regal_jax.search.recompute.search import (
    CHUNK,
    ORDERING,
    Plan,
    PlanSearch,
    base_orders,
    order_of_runs,
    searches_from,
)


@registry.method("recompute", evaluations=functools.partial(some_seconds, evaluations=200_000))
def run_recompute(problem: PlacementProblem, budget: Budget) -> Result:
    """Runs ops again where that is what it takes to stay within the memory capacity.

    From each of a few simple orders tensors are dropped and made again until the schedule fits, and
    large neighbourhoods of it are searched for less work; round by round the better half of the
    orders goes on, beside a new one: that of the least memory for all runs of the latest plan. One
    evaluation is the cost of one plan, or one of ``exact``. Where nothing fits, the result is what
    needs least of all that was tried.

    Raises OptionError but for the makespan of one device with a memory capacity.
    """
    _check(problem, "recompute")
    limit, graph = int(problem.platform.capacities()[0]), problem.graph
    orders = {"compact": _compact_order(problem, budget)} | base_orders(graph, budget.seed)
    distinct = searches_from(graph, orders, graph.duration, seed=budget.seed)
    searches = list(distinct.values())[: max(1, budget.evaluations // LEAST)]
    history, spent, done, least = list[tuple[int, float]](), 0, False, least_memory(graph)
    newest: PlanSearch | None = None
    while spent < budget.evaluations and not done:
        plans, new = _plans(searches, limit, min(budget.evaluations - spent, CHUNK))
        ranked = sorted(searches, key=lambda search: _rank(plans[search], search, limit))
        search, spent = ranked[0], spent + new
        history.append((spent, _rank(plan := plans[search], search, limit)))
        budget.on_progress(*history[-1])
        done = budget.out_of_time or not new or limit < least
        done |= plan is not None and len(plan.runs) == graph.num_ops
        searches = ranked[: (len(ranked) + 1) // 2]
        latest = plans.get(newest, plan) if newest else plan
        if newest and not latest:
            searches = [*(one for one in searches if one is not newest), newest]
        elif latest and not done and budget.evaluations - spent > 2 * ORDERING:
            order, took = order_of_runs(graph, latest.runs, lambda: budget.out_of_time)
            newest = PlanSearch(graph, order, graph.duration, seed=budget.seed + len(history))
            searches, spent = [*searches, newest], spent + took
    runs = (plan or search.nearest).runs
    return Result(_schedule(problem, runs), spent, tuple(history))


def _plans(
    searches: Sequence[PlanSearch], limit: int, most: int
) -> tuple[dict[PlanSearch, Plan | None], int]:
    """The plan of each search after at most so many evaluations of all, and how many these were."""
    each = max(1, most // (2 * len(searches) - 1))  # leaves as much for each that goes on
    before = sum(search.evaluations for search in searches)
    plans = {search: search.more(limit, each) for search in searches}
    return plans, sum(search.evaluations for search in searches) - before


def _rank(plan: Plan | None, search: PlanSearch, limit: int) -> float:
    """The work of a plan; above that of all, how far off it is where there is none."""
    return plan.work if plan else search.plain.work * MOST_RUNS + search.nearest.peak - limit


@registry.method(
    "cp_sat_recompute", evaluations=functools.partial(some_seconds, evaluations=200_000)
)
def run_cp_sat_recompute(problem: PlacementProblem, budget: Budget) -> Result:
    """CP-SAT with Moccasin's retention intervals, from the schedule of ``recompute`` on; for a
    minute, or until the time limit. Needs the extra ``solvers``.

    Its schedule is the last evaluation. Keeps the base order, each op running twice at most.
    """
    _check(problem, "cp_sat_recompute")
    seconds = max(min(budget.seconds_left, CP_SAT_SECONDS), 0.0)
    first = budget._replace(
        evaluations=max(budget.evaluations - 1, 1),
        deadline=min(budget.deadline, time.perf_counter() + seconds / 4),
    )
    start = run_recompute(problem, first)
    solution = cp_sat_recompute.solve(
        *(problem.graph, start.schedule.ops_in_order(), int(problem.platform.capacities()[0])),
        seconds=max(min(budget.seconds_left, CP_SAT_SECONDS), 0.0),
        hint=start.schedule.steps,
        seed=budget.seed,
    )
    if solution.runs is None or solution.work >= start.cost:
        return start
    point = (start.evaluations + 1, solution.work)
    budget.on_progress(*point)
    found = _schedule(problem, solution.runs)
    return Result(found, point[0], (*start.history, point))


CP_SAT_SECONDS = 60.0
LEAST = 100
"""Evaluations that a base order is worth."""


def _check(problem: PlacementProblem, name: str) -> None:
    one_limited = problem.num_devices == 1 and problem.platform.memory_capacity is not None
    if problem.objective != "makespan" or not one_limited:
        raise OptionError(
            f"{name} fits the ops of one device into a memory capacity at the least work: give"
            " --objective=makespan, --num_devices=1 and --memory_capacity"
        )


def _compact_order(problem: PlacementProblem, budget: Budget) -> np.ndarray:
    """The best of the cheap orders by peak memory."""
    compact = PlacementProblem(problem.graph, 1, "peak_memory")
    return simple.cheapest(compact, budget).schedule.ops_in_order()


def _schedule(problem: PlacementProblem, runs: np.ndarray) -> Schedule:
    one = Schedule(
        graph=problem.graph.name,
        objective=problem.objective,
        num_devices=1,
        placement=np.zeros(problem.graph.num_ops, np.int32),
        steps=runs,
        lower_bound=problem.lower_bound,
    )
    return problem.costed(one)

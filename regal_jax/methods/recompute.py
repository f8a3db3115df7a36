"""``recompute``: ops of one device run again, so that a graph fits with the least more work."""

import functools

import numpy as np

from regal_jax import registry
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.recompute.instance import MOST_RUNS
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import OptionError
from regal_jax.methods import simple
from regal_jax.options import Budget, Result, some_seconds
from regal_jax.search.recompute.search import CHUNK, Plan, PlanSearch


@registry.method("recompute", evaluations=functools.partial(some_seconds, evaluations=200_000))
def run_recompute(problem: PlacementProblem, budget: Budget) -> Result:
    """Runs ops again where that is what it takes to stay within the memory capacity.

    From the best of the cheap orders by peak memory, tensors are dropped and made again until the
    schedule fits, and large neighbourhoods of it are searched for less work. One evaluation is the
    cost of one plan. Where nothing fits, the result is what needs least of all that was tried.

    Raises OptionError but for the makespan of one device with a memory capacity.
    """
    capacity = problem.platform.memory_capacity
    if problem.objective != "makespan" or problem.num_devices != 1 or capacity is None:
        raise OptionError(
            "recompute fits the ops of one device into a memory capacity at the least work: give"
            " --objective=makespan, --num_devices=1 and --memory_capacity"
        )
    limit = int(problem.platform.capacities()[0])
    order = _compact_order(problem, budget)
    search = PlanSearch(problem.graph, order, problem.graph.duration, seed=budget.seed)
    plan = search.within(limit, budget.evaluations)
    found = plan or search.nearest
    beyond = search.plain.work * MOST_RUNS + found.peak - limit  # more than any that fits
    history = [(search.evaluations, plan.work if plan else beyond)]
    budget.on_progress(*history[-1])
    while (
        plan
        and len(plan.runs) > problem.graph.num_ops
        and search.evaluations < budget.evaluations
        and not budget.out_of_time
    ):
        plan = search.improve(limit, min(CHUNK, budget.evaluations - search.evaluations))
        history.append((search.evaluations, plan.work))
        budget.on_progress(*history[-1])
    return Result(_schedule(problem, plan or found), search.evaluations, tuple(history))


def _compact_order(problem: PlacementProblem, budget: Budget) -> np.ndarray:
    """The best of the cheap orders by peak memory."""
    compact = PlacementProblem(problem.graph, 1, "peak_memory")
    return simple.cheapest(compact, budget).schedule.ops_in_order()


def _schedule(problem: PlacementProblem, plan: Plan) -> Schedule:
    one = Schedule(
        graph=problem.graph.name,
        objective=problem.objective,
        num_devices=1,
        placement=np.zeros(problem.graph.num_ops, np.int32),
        steps=plan.runs,
        lower_bound=problem.lower_bound,
    )
    return problem.costed(one)

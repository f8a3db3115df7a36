"""``exact``: the best order on one device, with a proof that there is none better."""

import functools
import itertools

import numpy as np

from regal_jax import registry
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.methods import ordering, simple
from regal_jax.options import Budget, Result, best_of, some_seconds
from regal_jax.search.base import best_of_schedules
from regal_jax.search.exact_order import search
from regal_jax.search.placements.cheap import cheap_schedules


@registry.method("exact", evaluations=functools.partial(some_seconds, evaluations=100_000))
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
    return prove(problem, budget, simple.cheapest(problem, budget))


def is_for(problem: PlacementProblem) -> bool:
    """Whether ``exact`` may end with an optimal schedule."""
    return problem.objective == "peak_memory" and problem.num_devices == 1


def prove(problem: PlacementProblem, budget: Budget, found: Result) -> Result:
    """Narrows the gap of a problem's peak memory: better schedules and bounds.

    On one device both are those of orders. D devices share the order of the ops, so each time the
    fullest holds at least a D-th of what one device does; the best order on one is tried on the
    cheap placements.
    """
    left, bound = budget.evaluations - found.evaluations, problem.lower_bound
    if left < 1 or found.cost <= bound:
        return found._replace(lower_bound=bound)
    unit, history = max(problem.graph.num_ops, 1), list(found.history)

    def note(proof: search.Proof, cost: float) -> None:
        spent = found.evaluations + min(proof.states // unit + 1, left)
        if history[-1][0] == spent:
            history.pop()
        history.append((spent, cost))
        budget.on_progress(spent, cost)

    def note_better(proof: search.Proof) -> None:
        fits = problem.num_devices == 1 and proof.peak <= problem.platform.capacities()[0]
        if fits and proof.peak < history[-1][1]:
            note(proof, float(proof.peak))

    order = found.schedule.ops_in_order()
    gap = search.GapSearch(problem.graph, order, problem.together_bound)
    peak = gap.proof.peak
    gap.run(left * unit, lambda: budget.out_of_time, note_better)
    bound = max(bound, -(-gap.proof.lower_bound // problem.num_devices))
    note(gap.proof, history[-1][1])
    made = Result(found.schedule, history[-1][0], tuple(history), float(bound))
    if gap.proof.peak < peak:
        made = _ordered(problem, budget, made, gap.proof.order)
    budget.on_progress(made.evaluations, made.cost)
    return made


def _ordered(problem: PlacementProblem, budget: Budget, found: Result, order: np.ndarray) -> Result:
    """What a better order on one device makes of the best schedule."""
    left = budget.evaluations - found.evaluations
    if problem.num_devices == 1:
        better = ordering.of_order(problem, order)
        history = (*found.history[:-1], (found.evaluations, better.cost))
        return found._replace(schedule=better.schedule, history=history)
    if left < 1:
        return found
    tried = cheap_schedules(problem.graph, problem.num_devices, problem.objective, orders=[order])
    some = itertools.islice(tried, left)
    return best_of(found, best_of_schedules(problem, budget.after(found), some))

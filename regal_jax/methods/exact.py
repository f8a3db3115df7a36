"""``exact``: the best order on one device, with a proof that there is none better."""

import functools
import math
import time

import numpy as np

from regal_jax import registry
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.methods import ordering, simple
from regal_jax.options import Budget, Result, best_of, some_seconds
from regal_jax.search.exact_order import search
from regal_jax.search.placements.cheap import cheap_schedules

FIRST_PART = 0.1
"""Of the budget, after which a beam looks for a better order."""


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
    start, prover = simple.cheapest(problem, budget), Prover(problem)
    found = prover.prove(part(budget, start, FIRST_PART), start)
    if found.cost > found.lower_bound:
        better = ordering.narrowly(problem, budget, found)
        found = prover.prove(budget, better._replace(lower_bound=found.lower_bound))
    return found


def is_for(problem: PlacementProblem) -> bool:
    """Whether ``exact`` may end with an optimal schedule."""
    return problem.objective == "peak_memory" and problem.num_devices == 1


class Prover:
    """Narrows the gap of a problem's peak memory, a part of a budget at a time.

    On one device it finds better orders and bounds. D devices share the order of the ops, so each
    time the fullest holds at least a D-th of what one device does; the best order on one is tried
    on the cheap placements.
    """

    def __init__(self, problem: PlacementProblem):
        self.problem = problem
        self._search: search.GapSearch | None = None

    def prove(self, budget: Budget, found: Result) -> Result:
        """The best schedule and what is known of it, with what is left of the budget."""
        left = budget.evaluations - found.evaluations
        bound = max(self.problem.lower_bound, found.lower_bound)
        if left < 1 or found.cost <= bound:
            return found._replace(lower_bound=bound)
        order = found.schedule.ops_in_order()
        if self._search is None:
            graph, together = self.problem.graph, self.problem.together_bound
            self._search = search.GapSearch(graph, order, together)
        self._search.offer(order)
        peak, before = self._search.proof.peak, self._search.proof.states
        unit = max(self.problem.graph.num_ops, 1)
        self._search.run(before + left * unit, lambda: budget.out_of_time)
        proof = self._search.proof
        spent = min((proof.states - before) // unit + 1, left)
        bound = max(bound, -(-proof.lower_bound // self.problem.num_devices))
        point = (found.evaluations + spent, found.cost)
        found = Result(found.schedule, point[0], (*found.history, point), float(bound))
        if proof.peak < peak:
            found = self._ordered(budget, found, proof.order)
        budget.on_progress(found.evaluations, found.cost)
        return found

    def _ordered(self, budget: Budget, found: Result, order: np.ndarray) -> Result:
        """What a better order on one device makes of the best schedule."""
        problem, left = self.problem, budget.evaluations - found.evaluations
        if problem.num_devices == 1:
            better = ordering.of_order(problem, order)
            history = (*found.history[:-1], (found.evaluations, better.cost))
            return found._replace(schedule=better.schedule, history=history)
        tried = cheap_schedules(
            problem.graph, problem.num_devices, problem.objective, orders=[order]
        )[:left]
        if not tried:
            return found
        return best_of(found, simple.best_schedule(problem, budget.after(found), tried))


def part(budget: Budget, found: Result, share: float, most: float = math.inf) -> Budget:
    """A share of what is left of the evaluations, at most so many, and of the time."""
    left = budget.evaluations - found.evaluations
    evaluations = found.evaluations + int(min(left * share, most))
    deadline = time.perf_counter() + budget.seconds_left * share
    return budget._replace(evaluations=evaluations, deadline=deadline)

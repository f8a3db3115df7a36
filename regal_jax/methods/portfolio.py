"""``portfolio``, and ``auto``: searches take turns, and the one that gains most goes on."""

import functools
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from regal_jax import registry
from regal_jax.environments.dispatching import rule
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.schedule import expected_gain
from regal_jax.methods import exact, refinement, simple
from regal_jax.methods.pretrained import shipped_policy
from regal_jax.options import Budget, Result, best_of, some_seconds


class Arm(NamedTuple):
    """A search that goes on from a schedule.

    Attributes:
      search: (problem, budget in all, best so far) -> the best after spending the budget.
      most: evaluations at most, for one whose evaluations take a hundred times longer than
        local search's.
      least_seconds: with a deadline, it begins only if so much is left: it may have to compile.
    """

    search: Callable[[PlacementProblem, Budget, Result], Result]
    most: float = math.inf
    least_seconds: float = 0.0


LOCAL_SEARCH = Arm(refinement.polish)
BLOCK_MOVES = Arm(refinement.climb, most=5000, least_seconds=10.0)

RULES_PART, FEW_RULES, MOST_RULES = 0.2, 64, 1000
"""Of the budget, for dispatching rules on several devices; how many rules at least, if it has them;
and at most."""
CHEAP_PART = 0.5
"""Of the budget, for cheap schedules, where rules come next."""
MOST_PAIRS, LEAST_RULES = 10**8, 20
"""Pairs of ops and devices that these look at, in seconds; there are fewer rules on graphs where
thousands of ops are ready at once, and none rather than fewer than these."""

PROOF_PART = 0.03
"""Of the budget, for the bound and better orders on several devices: 0.3 left 24 validation graphs
0.4 % worse at 5,000 evaluations with hardly better bounds. On one device it is all there is: less
left larger gaps on the 16 validation graphs that were furthest open."""
PROOF_WORK = 10_000_000
"""Without a deadline at most so many maximum flows times ops, a second or two."""

SOME_SECONDS = functools.partial(some_seconds, evaluations=1_000_000)
"""Most evaluations are incremental."""

TURNS = 10
"""A turn is the rest of the budget over this number, but at least what follows."""
LEAST = 500
LEAST_SECONDS = 0.1

GROWTH = 4
"""Of a budget that nobody gave, a turn is no more than what was spent so far over this."""
SURE, SURE_WORK = 50_000, 50_000_000
"""Evaluations, and evaluations times ops, that such a search has in any case, the more of the two;
about a second."""
WORTHWHILE = 0.005
"""Then it ends when all that is left is expected to save less than this share of the cost
(docs/results/auto_stop.md)."""


@registry.method("auto", evaluations=SOME_SECONDS)
@registry.method("portfolio", evaluations=SOME_SECONDS)
def run_portfolio(problem: PlacementProblem, budget: Budget) -> Result:
    """What is best within a budget of evaluations or, with a deadline, of time.

    First the cheap schedules, on several devices dispatching rules (``dispatching``) and, for
    memory, a share for ``exact``, which on one device is all of the time; then local search and
    block moves take turns, each from the best schedule so far. Next is whichever gained most in its
    last turn, by seconds with a deadline, by evaluations without; on ties (nobody gains) the one
    that has waited longest. Ends at the lower bound; where neither evaluations nor seconds were
    asked for, also when the rest of the budget hardly promises to save anything
    (``expected_gain``). Never worse than the cheap schedules that it has a budget for. A single
    evaluation is the first cheap schedule's or, on several devices, the first rule's.
    """
    start = _start(problem, budget)
    found = _proven(problem, budget, start)
    if found.cost <= max(problem.lower_bound, found.lower_bound):
        return found
    searched = _take_turns(problem, budget, found)
    bound = max(found.lower_bound, searched.lower_bound)
    return _exactly_better(problem, start, searched)._replace(lower_bound=bound)


def _start(problem: PlacementProblem, budget: Budget) -> Result:
    """Cheap schedules and, where more than one device is to be chosen from, dispatching rules."""
    most = rule.most_rules(problem, MOST_PAIRS) if problem.num_devices > 1 else 0
    if most < LEAST_RULES:
        return simple.cheapest(problem, budget)
    if budget.evaluations == 1:
        return _rules(problem, budget, 1)
    of_cheap = math.ceil(CHEAP_PART * budget.evaluations)
    found = simple.cheapest(problem, budget._replace(evaluations=of_cheap))
    left = budget.evaluations - found.evaluations
    if found.cost <= problem.lower_bound or left < 1:
        return found
    part = budget.after(found)
    if _is_timed(budget):
        part = part._replace(deadline=time.perf_counter() + RULES_PART * budget.seconds_left)
    count = min(max(int(RULES_PART * left), FEW_RULES), left, most, MOST_RULES)
    return best_of(found, _rules(problem, part, count))


def _rules(problem: PlacementProblem, budget: Budget, count: int) -> Result:
    """So many dispatching rules, as REGAL's network chooses them."""
    from regal_jax.methods import dispatching  # its networks, where they are looked at

    return dispatching.search_by(shipped_policy("rules"))(problem, budget, count)


def _take_turns(problem: PlacementProblem, budget: Budget, found: Result) -> Result:
    """Local search and block moves, whichever gains most."""
    bound, turn = max(problem.lower_bound, found.lower_bound), 0
    arms = [arm for arm in (LOCAL_SEARCH, BLOCK_MOVES) if _may_begin(arm, budget)]
    rates = dict.fromkeys(arms, (math.inf, 0))
    spent = dict.fromkeys(rates, 0)
    while (
        rates
        and found.cost > bound
        and not (budget.out_of_time or _is_settled(budget, found, bound))
    ):
        arm = max(rates, key=rates.__getitem__)
        before, begin = found, time.perf_counter()
        found = arm.search(problem, _turn(budget, found, turn, arm.most - spent[arm]), found)
        evaluations = found.evaluations - before.evaluations
        spent[arm] += evaluations
        turn += 1
        amount = time.perf_counter() - begin if _is_timed(budget) else evaluations
        rates[arm] = ((before.cost - found.cost) / max(amount, 1e-9), -turn)
        if not evaluations or spent[arm] >= arm.most:
            del rates[arm]
        rates = {arm: rate for arm, rate in rates.items() if _may_begin(arm, budget)}
    return found


def _proven(problem: PlacementProblem, budget: Budget, found: Result) -> Result:
    """After a share of the budget for ``exact``, where it is for the objective."""
    if problem.objective != "peak_memory":
        return found
    share = 1.0 if exact.is_for(problem) else PROOF_PART
    most = math.inf if _is_timed(budget) else PROOF_WORK / max(problem.graph.num_ops, 1)
    left = min(share * (budget.evaluations - found.evaluations), most)
    deadline = time.perf_counter() + share * budget.seconds_left
    part = budget._replace(evaluations=found.evaluations + int(left), deadline=deadline)
    return exact.prove(problem, part, found)


def _exactly_better(problem: PlacementProblem, start: Result, found: Result) -> Result:
    """``found``, unless it is worse by what was rounded away: then with ``start``'s schedule."""
    both = np.stack([problem.encode(one.schedule) for one in (start, found)])
    costs = np.asarray(problem.fitness(both))
    return found if costs[1] <= costs[0] else found._replace(schedule=start.schedule)


def _turn(budget: Budget, found: Result, turn: int, most: float) -> Budget:
    """A part of the budget, which counts what was spent before, with random numbers of its own."""
    left = min(budget.evaluations - found.evaluations, most)
    budget = budget._replace(seed=budget.seed + 7919 * turn)
    if _is_timed(budget):
        seconds = max(LEAST_SECONDS, budget.seconds_left / TURNS)
        deadline = min(budget.deadline, time.perf_counter() + seconds)
        return budget._replace(deadline=deadline, evaluations=found.evaluations + int(left))
    share = min(left // TURNS, found.evaluations // GROWTH if _is_own(budget) else math.inf)
    part = min(left, max(LEAST, share))
    return budget._replace(evaluations=found.evaluations + int(part))


def _is_settled(budget: Budget, found: Result, bound: float) -> bool:
    """Whether the rest of a budget that nobody gave isn't worth its time."""
    sure = max(SURE, SURE_WORK // max(len(found.schedule.placement), 1))
    if not _is_own(budget) or found.evaluations < sure:
        return False
    gain = min(expected_gain(found.history, budget.evaluations), found.cost - bound)
    return gain <= WORTHWHILE * found.cost


def _is_own(budget: Budget) -> bool:
    """Whether the budget is the method's own: neither evaluations nor seconds were asked for."""
    return budget.options.evaluations is None and not _is_timed(budget)


def _may_begin(arm: Arm, budget: Budget) -> bool:
    return budget.seconds_left >= arm.least_seconds


def _is_timed(budget: Budget) -> bool:
    return math.isfinite(budget.deadline)

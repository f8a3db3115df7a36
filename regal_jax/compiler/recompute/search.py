"""The way to run a program within a memory budget that adds the least work, as the compiler judges.

A model of kernels says which to run again for a limit; the compiler says what that needs in truth,
and the limit is moved until its word is within the budget.
"""

import contextlib
import functools
import time
from collections.abc import Sequence

import numpy as np

from regal_jax import api
from regal_jax.compiler.recompute.emission import ANY
from regal_jax.compiler.recompute.judge import Attempt, Judge, Way
from regal_jax.compiler.recompute.work import kernel_work
from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.errors import CompilerError
from regal_jax.reporting import progress
from regal_jax.search.recompute.search import Plan, PlanSearch

COMPILATIONS = 15
"""Ways that are compiled, besides XLA's own, unless told otherwise."""

EVALUATIONS = 20_000
"""Of the search for a base order, and of that for a plan of each limit."""

SLACK = 0.03
"""Of the budget: what compilers need more than the model says, at a first guess."""

GREEDY = 20
"""Times as many evaluations may a first plan take."""

FORMS = {
    "cpu": ((ANY, True), (1, True), (1, False)),
    "accelerator": ((32, False), (4, False)),
}
"""How the runs of a plan are compiled, until one is within the budget: ``near`` and ``compact`` of
``Way``, the fewest barriers, and FLOPs, first. With ANY, only repeated work has some, and XLA
orders the rest: where its order is good, or fuses much, that is best."""

CLOSE = 0.01
"""Of the budget: limits that are so close aren't told apart."""


LOWER = 0.85
"""While nothing is within the budget, the next limit is lower by this than it takes in proportion:
fewer bytes in the model are not always fewer in the program."""


class Lines:
    """Plans of a program's kernels, from two base orders: its own and that of least memory.

    Args:
      judge: the program.
      evaluations: of each search.
      seed: of everything random.

    Attributes:
      given: bytes of arguments and of constants. plain: the least peak of the orders alone.
    """

    def __init__(self, judge: Judge, evaluations: int = EVALUATIONS, seed: int = 0):
        graph, work = judge.kernels.graph, kernel_work(judge.kernels)
        best = api.optimize(graph, num_devices=1, evaluations=evaluations, seed=seed)
        orders = {"program": np.arange(graph.num_ops), "auto": best.ops_in_order()}
        self._evaluations = evaluations
        self._searches = {
            name: PlanSearch(graph, order, work, seed=seed) for name, order in orders.items()
        }
        self.given = int(graph.size[(graph.producer < 0) & (graph.consumers.lengths() > 0)].sum())
        self.plain = min(search.plain.peak for search in self._searches.values())

    def within(self, limit: int) -> tuple[str, Plan, bool]:
        """(base order, plan, whether it fits): the least work within a limit, or the least peak."""
        found = {
            name: search.within(limit, GREEDY * self._evaluations)
            and search.improve(limit, self._evaluations)
            for name, search in self._searches.items()
        }
        fitting = {name: plan for name, plan in found.items() if plan}
        if fitting:
            name = min(fitting, key=lambda name: fitting[name].work)
            return name, fitting[name], True
        nearest = {name: search.nearest for name, search in self._searches.items()}
        name = min(nearest, key=lambda name: nearest[name].peak)
        return name, nearest[name], False


class Search:
    """Ways to run a program that were compiled so far, and the search for more.

    Args:
      judge: compiles.
      evaluations, seed: see ``Lines``.

    Attributes:
      attempts: the plain program first.
    """

    def __init__(self, judge: Judge, *, evaluations: int = EVALUATIONS, seed: int = 0):
        self._judge = judge
        self._forms = FORMS["cpu" if judge.target is None else "accelerator"]
        self._make = functools.partial(Lines, judge, evaluations, seed)
        self._totals: dict[int, int] = {}  # the least bytes of a limit's ways, by the compiler
        self._floor = 0  # a limit that the model has no plan within
        self.attempts = [judge(Way(PLAIN))]

    @property
    def plain(self) -> Attempt:
        """XLA's own choice."""
        return self.attempts[0]

    @functools.cached_property
    def _lines(self) -> Lines:
        return self._make()

    def within(
        self, budget: int, *, compilations: int = COMPILATIONS, time_limit: float | None = None
    ) -> Attempt:
        """The attempt with the least work within a budget, or else with the fewest bytes.

        Args:
          budget: bytes of one device.
          compilations: more than there are, at most.
          time_limit: seconds, for these.
        """
        late = time.perf_counter() + (float("inf") if time_limit is None else time_limit)
        most = len(self.attempts) + compilations
        with progress.status("looking for what to compute again"):
            while self.plain.needs.total > budget and len(self.attempts) < most:
                limit = self._next(budget)
                if limit is None or time.perf_counter() > late:
                    break
                self._try(limit, budget)
        return min(self.attempts, key=lambda one: _rank(one, budget))

    def look_at(self, share: float) -> None:
        """Compiles plans of a share of the bytes beyond the arguments that orders alone need."""
        lines = self._lines
        self._try(lines.given + int(share * (lines.plain - lines.given)), 0)

    def _try(self, limit: int, budget: int) -> None:
        """Compiles the plan of a limit, form by form until it is within the budget."""
        name, plan, is_within = self._lines.within(limit)
        if not is_within:
            self._floor = max(self._floor, limit)
        totals = [2 * self.plain.needs.total]
        for form in self._forms:
            with contextlib.suppress(CompilerError):
                one = self._judge(Way(name, tuple(plan.runs.tolist()), *form))
                self.attempts.append(one)
                totals.append(one.needs.total)
                if totals[-1] <= budget:
                    break
        self._totals[limit] = min(totals)

    def _next(self, budget: int) -> int | None:
        """The next limit to try: those that just fit are closed in on. None where all is tried."""
        if not self._totals:
            return budget - int(SLACK * budget)
        low = max((limit for limit, total in self._totals.items() if total <= budget), default=0)
        high = min((limit for limit in self._totals if limit > low), default=0)
        near = low or high
        given, arguments = self._lines.given, self.plain.needs.arguments
        slope = (budget - arguments) / max(self._totals[near] - arguments, 1)
        scaled = given + int((near - given) * (slope if low else slope * LOWER))
        step = int(CLOSE * budget)
        if low and high:
            limit = (low + high) // 2
        else:
            limit = scaled if low else max(given + 1, min(scaled, high - 3 * step))
        return None if limit <= self._floor or (low and limit - low < step) else limit


def pareto(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Those that no other has as few bytes and as little work as, the most bytes first."""
    kept: list[Attempt] = []
    for one in sorted(attempts, key=lambda one: (one.needs.flops, one.needs.total)):
        if not kept or one.needs.total < kept[-1].needs.total:
            kept.append(one)
    return kept


def _rank(attempt: Attempt, budget: int) -> tuple[bool, float, float]:
    needs = attempt.needs
    fits = needs.total <= budget
    return not fits, needs.flops if fits else needs.total, needs.total

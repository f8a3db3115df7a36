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
from regal_jax.compiler.barriers.kernels import Kernels
from regal_jax.compiler.barriers.search import FIRST, STEP, line_of
from regal_jax.compiler.recompute.emission import ANY
from regal_jax.compiler.recompute.judge import LEAN, Attempt, Judge, Needs, Way, rank
from regal_jax.compiler.recompute.work import kernel_work
from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.compiler.xla.settings import Search as Orders
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
    "accelerator": ((ANY, False), (32, False), (4, False)),
}
"""How the runs of a plan are compiled, until one is within the budget: ``near`` and ``compact`` of
``Way``, the fewest barriers, FLOPs and time first. With ANY, only repeated work has some, and XLA
orders the rest: where its order is good, or fuses much, that is best."""

REACH = 1.25
"""Of the budget: programs that need no more get another order behind the scheduler."""

CLOSE = 0.01
"""Of the budget: limits that are so close aren't told apart."""


CUTS = (FIRST, FIRST * STEP)
"""Segments that the base orders are tried in."""

LOWER = 0.85
"""While nothing is within the budget, the next limit is lower by this than it takes in proportion:
fewer bytes in the model are not always fewer in the program."""


ENOUGH, ENOUGH_TIME = 1.001, 1.01
"""FLOPs, and estimated time, over the plain program's: with no more no other way is looked for."""


class Lines:
    """Plans of a program's kernels, from two base orders: its own and that of least memory.

    Args:
      kernels: of the program.
      evaluations: of each search.
      seed: of everything random.

    Attributes:
      orders: the base orders.
      given: bytes of arguments and of constants. plain: the least peak of the orders alone.
      totals: of limits that were compiled, the least bytes that the compiler says.
      floor: a limit that there is no plan within.
    """

    def __init__(self, kernels: Kernels, evaluations: int = EVALUATIONS, seed: int = 0):
        graph, work = kernels.graph, kernel_work(kernels)
        best = api.optimize(graph, num_devices=1, evaluations=evaluations, seed=seed)
        orders = {"program": np.arange(graph.num_ops), "auto": best.ops_in_order()}
        self._evaluations = evaluations
        self.orders = {name: tuple(order.tolist()) for name, order in orders.items()}
        self._searches = {
            name: PlanSearch(graph, order, work, seed=seed) for name, order in orders.items()
        }
        self.given = int(graph.size[(graph.producer < 0) & (graph.consumers.lengths() > 0)].sum())
        self.plain = min(search.plain.peak for search in self._searches.values())
        self.totals: dict[int, int] = {}
        self.floor = 0

    def within(self, limit: int) -> tuple[str, Plan]:
        """(base order, plan): the least work within a limit, or the least peak."""
        found = {
            name: search.within(limit, GREEDY * self._evaluations)
            and search.improve(limit, self._evaluations)
            for name, search in self._searches.items()
        }
        fitting = {name: plan for name, plan in found.items() if plan}
        if fitting:
            name = min(fitting, key=lambda name: fitting[name].work)
            return name, fitting[name]
        self.floor = max(self.floor, limit)
        nearest = {name: search.nearest for name, search in self._searches.items()}
        name = min(nearest, key=lambda name: nearest[name].peak)
        return name, nearest[name]

    def next(self, budget: int, plain: Needs) -> int | None:
        """The next limit to try: those that just fit are closed in on. None where all is tried."""
        if not self.totals:
            return budget - int(SLACK * budget)
        low = max((limit for limit, total in self.totals.items() if total <= budget), default=0)
        high = min((limit for limit in self.totals if limit > low), default=0)
        near = low or high
        slope = (budget - plain.arguments) / max(self.totals[near] - plain.arguments, 1)
        scaled = self.given + int((near - self.given) * (slope if low else slope * LOWER))
        step = int(CLOSE * budget)
        if low and high:
            limit = (low + high) // 2
        else:
            limit = scaled if low else max(self.given + 1, min(scaled, high - 3 * step))
        return None if limit <= self.floor or (low and limit - low < step) else limit


class Search:
    """Ways to run a program that were compiled so far, and the search for more.

    Args:
      judge: compiles.
      evaluations, seed: see ``Lines``.
      reorders: whether programs get orders behind the scheduler, which are no part of a function.

    Attributes:
      attempts: the plain program first.
    """

    def __init__(
        self,
        judge: Judge,
        *,
        evaluations: int = EVALUATIONS,
        seed: int = 0,
        reorders: bool = False,
    ):
        self._judge, self._reorders = judge, reorders
        self._how = Orders(evaluations=evaluations, seed=seed)
        self._forms = FORMS["cpu" if judge.target is None else "accelerator"]
        self._lines = functools.cache(
            lambda loops: Lines(judge.versions[loops].kernels, evaluations, seed)
        )
        self.attempts = [judge(Way(PLAIN))]

    @property
    def plain(self) -> Attempt:
        """XLA's own choice."""
        return self.attempts[0]

    def within(
        self, budget: int, *, compilations: int = COMPILATIONS, time_limit: float | None = None
    ) -> Attempt:
        """The attempt with the least work within a budget, or else with the fewest bytes.

        Args:
          budget: bytes of one device.
          compilations: of plans, at most.
          time_limit: seconds, for these.
        """
        late = time.perf_counter() + (float("inf") if time_limit is None else time_limit)
        with progress.status("looking for what to compute again"):
            if self._reordered(self.plain, budget).needs.total > budget:
                self._try_loops()
                self._try_cuts(budget)
            loops, most = self._loops(budget), len(self.attempts) + compilations
            while len(self.attempts) < most and not self._is_enough(budget):
                limit = self._lines(loops).next(budget, self.plain.needs)
                if limit is None or time.perf_counter() > late:
                    break
                self._try(loops, limit, budget)
        return self._best(budget)

    def look_at(self, share: float) -> None:
        """Compiles plans of a share of the bytes beyond the arguments that orders alone need."""
        self._try_loops()
        for loops in range(len(self._judge.versions)):
            lines = self._lines(loops)
            self._try(loops, lines.given + int(share * (lines.plain - lines.given)), 0)

    def _best(self, budget: int) -> Attempt:
        return min(self.attempts, key=lambda one: rank(one.needs, budget))

    def _is_enough(self, budget: int) -> bool:
        needs, plain = self._best(budget).needs, self.plain.needs
        enough = ENOUGH_TIME if plain.seconds else ENOUGH
        return needs.total <= budget and needs.work <= enough * plain.work

    def _try_loops(self) -> None:
        """Compiles the program with each kind of lean loops, once."""
        for loops in range(1, len(self._judge.versions)):
            self._try_way(Way(LEAN, loops=loops))

    def _try_cuts(self, budget: int) -> None:
        """Compiles the base orders in segments, ever more of them, until one is within the budget:
        nothing runs again, but what fuses. For accelerators; each once."""
        if self._judge.target is None:
            return
        kernels, orders = self._judge.kernels, self._lines(0).orders
        lines = {name: line_of(kernels, order) for name, order in orders.items()}
        for number in CUTS:
            for name, line in lines.items():
                cut = line.cut(name, number)
                if not cut.cuts:
                    continue
                with contextlib.suppress(CompilerError):
                    attempt = self._try_way(Way(name, cut.order, cuts=cut.cuts))
                    if self._reordered(attempt, budget).needs.total <= budget:
                        return

    def _try_way(self, way: Way) -> Attempt:
        """Compiles a way, unless it has been. CompilerError where the compiler refuses it."""
        known = [one for one in self.attempts if one.way == way]
        if not known:
            self.attempts.append(self._judge(way))
        return (known or self.attempts)[-1]

    def _reordered(self, attempt: Attempt, budget: int) -> Attempt:
        """The same in another order behind the scheduler, where that may come within the budget."""
        if self._reorders and budget < attempt.needs.total <= REACH * budget:
            with contextlib.suppress(CompilerError):
                if (made := self._judge.reordered(attempt, self._how)) is not None:
                    self.attempts.append(made)
                    return made
        return attempt

    def _loops(self, budget: int) -> int:
        """The loops to search a plan with: those before the first that fit with none."""
        lean = {one.way.loops: one.needs.total for one in self.attempts if not one.way.runs}
        fit = [loops for loops, total in lean.items() if total <= budget]
        return min(fit) - 1 if fit else len(self._judge.versions) - 1

    def _try(self, loops: int, limit: int, budget: int) -> None:
        """Compiles the plan of a limit, form by form until it is within the budget."""
        lines = self._lines(loops)
        name, plan = lines.within(limit)
        totals = [2 * self.plain.needs.total]
        for form in self._forms:
            with contextlib.suppress(CompilerError):
                one = self._judge(Way(name, tuple(plan.runs.tolist()), *form, loops))
                self.attempts.append(one)
                totals.append(self._reordered(one, budget).needs.total)
                if totals[-1] <= budget:
                    break
        lines.totals[limit] = min(totals)


def pareto(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Those that no other has as few bytes and as little work as, the most bytes first."""
    kept: list[Attempt] = []
    for one in sorted(attempts, key=lambda one: (one.needs.flops, one.needs.total)):
        if not kept or one.needs.total < kept[-1].needs.total:
            kept.append(one)
    return kept

"""The way to run a program within a memory budget that adds the least work, as the compiler judges.

A model of kernels says which to run again for a limit; the compiler says what that needs in truth,
and the limit is moved until its word is within the budget.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence

import numpy as np

from regal_jax import api
from regal_jax.compiler.recompute.judge import Attempt, Judge, Way
from regal_jax.compiler.recompute.work import kernel_work
from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.errors import CompilerError
from regal_jax.reporting import progress
from regal_jax.search.recompute.search import Plan, PlanSearch

COMPILATIONS = 8
"""Ways that are compiled, besides XLA's own, unless told otherwise."""

EVALUATIONS = 20_000
"""Of the search for a base order, and of that for a plan of each limit."""

GREEDY = 50
"""Times as many evaluations may a first plan take."""

NEARS = {"cpu": (1, 4), "accelerator": (32, 4)}
"""Runs without a barrier between them (``in_runs``): on CPUs few fusions depend on it."""

CLOSE = 0.01
"""Of the budget: limits that are so close aren't told apart."""


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


def within_budget(
    judge: Judge,
    budget: int,
    *,
    compilations: int = COMPILATIONS,
    evaluations: int = EVALUATIONS,
    time_limit: float | None = None,
    seed: int = 0,
) -> list[Attempt]:
    """Ways that were compiled, the best first: those within the budget, by work, then by bytes.

    Args:
      judge: compiles.
      budget: bytes of one device.
      compilations: at most, besides the plain one.
      evaluations, time_limit, seed: of the search.
    """
    plain = judge(Way(PLAIN))
    attempts = [plain]
    if plain.needs.total > budget:
        late = time.perf_counter() + (float("inf") if time_limit is None else time_limit)
        with progress.status("looking for what to compute again"):
            lines = Lines(judge, evaluations, seed)
            for way in _ways(lines, attempts, budget, _nears(judge)):
                if len(attempts) > compilations or time.perf_counter() > late:
                    break
                with contextlib.suppress(CompilerError):
                    attempts.append(judge(way))
    return sorted(attempts, key=lambda one: _rank(one, budget))


def frontier(
    judge: Judge,
    shares: Sequence[float],
    *,
    evaluations: int = EVALUATIONS,
    seed: int = 0,
) -> list[Attempt]:
    """The plain program, and ways of ever less memory and more work.

    Args:
      shares: of the bytes beyond the arguments that the model says orders alone need.
    """
    attempts = [judge(Way(PLAIN))]
    lines = Lines(judge, evaluations, seed)
    for share in progress.each("budgets", shares):
        limit = lines.given + int(share * (lines.plain - lines.given))
        name, plan, _ = lines.within(limit)
        for near in _nears(judge):
            with contextlib.suppress(CompilerError):
                attempts.append(judge(Way(name, tuple(plan.runs.tolist()), near)))
    return attempts


def pareto(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Those that no other has as few bytes and as little work as, the most bytes first."""
    kept: list[Attempt] = []
    for one in sorted(attempts, key=lambda one: (one.needs.flops, one.needs.total)):
        if not kept or one.needs.total < kept[-1].needs.total:
            kept.append(one)
    return kept


def _nears(judge: Judge) -> tuple[int, ...]:
    return NEARS["cpu" if judge.target is None else "accelerator"]


def _rank(attempt: Attempt, budget: int) -> tuple[bool, float, float]:
    needs = attempt.needs
    fits = needs.total <= budget
    return not fits, needs.flops if fits else needs.total, needs.total


def _ways(
    lines: Lines, attempts: Sequence[Attempt], budget: int, nears: Sequence[int]
) -> Iterator[Way]:
    """Ways to compile, by what came of those before: the limit that just fits is closed in on."""
    low, high = 0, 0  # limits that the compiler kept, and that it didn't
    limit = budget
    while True:
        name, plan, is_within = lines.within(limit)
        for near in nears:
            before = len(attempts)
            yield Way(name, tuple(plan.runs.tolist()), near)
            if len(attempts) > before and attempts[-1].needs.total <= budget:
                break
        least = min((one.needs for one in attempts[1:]), default=None)
        if least is None or not (is_within or low):
            return
        fits = attempts[-1].needs.total <= budget
        low, high = (limit, high) if fits else (low, limit)
        needs = attempts[-1].needs
        scaled = lines.given + (limit - lines.given) * (budget - needs.arguments) // max(
            needs.total - needs.arguments, 1
        )
        if low and high:
            limit = (low + high) // 2
        elif fits:
            limit = scaled
        else:
            limit = min(scaled, limit - int(3 * CLOSE * budget))
        if limit <= lines.given or (low and abs(limit - low) < CLOSE * budget):
            return

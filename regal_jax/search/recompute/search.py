"""Schedules within a memory limit in which ops run again, for the least work.

From a base order, in which each op runs once, gaps are dropped until what is left fits
(``kernel``); then large neighbourhoods of the plan are searched.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from regal_jax.environments.placement.min_cut import given_bytes
from regal_jax.environments.recompute.instance import each_once, instance_of, scratch_of
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.rewrites.runs import graph_of_runs
from regal_jax.search.exact_order.search import GapSearch
from regal_jax.search.orders import rules, xla_orders
from regal_jax.search.recompute import kernel

CHUNK = 20_000
"""Evaluations between two looks at the clock."""

ATTEMPTS = 8
"""Gap by gap to come within a limit: the first takes the best of each step, others are random."""


ORDERING = 2_000
"""Evaluations of the search for an order of a plan's runs: each a maximum flow, or as many sets of
runs as there are runs."""


class Plan(NamedTuple):
    """Runs of a graph's ops.

    Attributes:
      runs: int64[R], the ops as they run, some again.
      peak: bytes in memory at most.
      work: of all runs.
    """

    runs: np.ndarray
    peak: int
    work: float


class PlanSearch:
    """The plans of one base order, from which others are found with ever less memory or work.

    Args:
      graph, order, work, once: see ``instance_of``.
      seed: of everything random.

    Attributes:
      plain: the order itself, each op once.
      nearest: what came of the last limit that no plan was found for.
    """

    def __init__(
        self,
        graph: ComputationGraph,
        order: np.ndarray,
        work: np.ndarray,
        *,
        once: Iterable[int] = (),
        seed: int = 0,
    ):
        self._order = np.asarray(order, np.int64)
        self._instance = instance_of(graph, self._order, work, once)
        self._scratch = scratch_of(self._instance)
        self._space = kernel.work_space(self._instance)
        self._tally = kernel.Tally(np.ones(1, np.int64), np.array([seed], np.uint64))
        self._once = each_once(self._instance)
        self._found: dict[int, np.ndarray] = {}  # plans by their limits
        self._failed: dict[int, np.ndarray] = {}  # and what is beyond them yet
        self.plain = self.nearest = self._plan(self._once)

    @property
    def evaluations(self) -> int:
        """Spent so far."""
        return int(self._tally.spent[0])

    def within(self, limit: int, evaluations: int) -> Plan | None:
        """A plan whose peak is within a limit, None if none is found.

        Gap by gap, from what was found for the next higher limit, at random where that fails; then
        by large neighbourhoods, for as many evaluations, or all of them where the limit was tried
        before.
        """
        begin, plan = self.evaluations, self._failed.get(limit)
        left = evaluations
        if plan is None:
            plan = self._reduced(limit, begin + evaluations)
            left = min(begin + evaluations - self.evaluations, self.evaluations - begin)
        if self._improved(plan, limit, left, until_fits=True):
            self._found[limit] = plan
            return self._plan(plan)
        self._failed[limit] = plan
        self.nearest = min(self.nearest, self._plan(plan), key=lambda one: one.peak)
        return None

    def _reduced(self, limit: int, most: int) -> np.ndarray:
        """The plan that comes nearest to a limit, gap by gap; the first one within it."""
        higher = [known for known in self._found if known >= limit]
        begin = self._found[min(higher)] if higher else self._once
        nearest, least = begin, np.inf
        for attempt in range(ATTEMPTS):
            plan = (self._once if attempt else begin).copy()
            args = (self._instance, plan, self._scratch, limit)
            if kernel.reduce(*args, self._space, float(attempt > 0), most, self._tally):
                kernel.prune(*args, most, self._tally)
                return plan
            beyond = kernel.evaluate(*args)[1]
            if beyond < least:
                nearest, least = plan, beyond
            if self.evaluations >= most:
                break
        return nearest

    def improve(self, limit: int, evaluations: int) -> Plan:
        """The best plan for a limit that ``within`` found one for, after more search."""
        best = self._found[limit]
        self._improved(best, limit, evaluations, until_fits=False)
        return self._plan(best)

    def more(self, limit: int, evaluations: int) -> Plan | None:
        """``improve`` where a plan for the limit is known, else ``within``."""
        return (self.improve if limit in self._found else self.within)(limit, evaluations)

    def _improved(
        self, best: np.ndarray, limit: int, evaluations: int, *, until_fits: bool
    ) -> bool:
        """Changes a plan for the better; whether it is within the limit then."""
        return kernel.improve(
            *(self._instance, best.copy(), best, self._scratch, limit, self._space),
            *(until_fits, self.evaluations + evaluations, self._tally),
        )

    def _plan(self, plan: np.ndarray) -> Plan:
        peak, _, work, count = kernel.evaluate(self._instance, plan, self._scratch, 0)
        return Plan(self._order[self._scratch.runs[:count]], int(peak), float(work))


def base_orders(graph: ComputationGraph, seed: int = 0) -> dict[str, np.ndarray]:
    """Simple orders to begin with, by name: which has the best plans its peak doesn't tell."""
    made = {
        "program": rules.program_order,
        "lpmf": rules.least_memory_first,
        "xla_list": xla_orders.ORDERS["xla_list"],
    }
    return {name: order(graph, seed) for name, order in made.items()}


def order_of_runs(
    graph: ComputationGraph, runs: np.ndarray, out_of_time: Callable[[], bool]
) -> tuple[np.ndarray, int]:
    """A base order for further plans, from one: its runs are brought into an order of less memory,
    and each op stands where it runs first. And how many evaluations that took, at most ORDERING."""
    every = graph_of_runs(graph, runs.tolist())
    gap = GapSearch(every, np.arange(len(runs)), given_bytes(every))
    gap.run((ORDERING - 1) * len(runs), out_of_time)
    order = runs[gap.proof.order]
    _, first = np.unique(order, return_index=True)
    return order[np.sort(first)], min(gap.proof.states // max(len(runs), 1) + 1, ORDERING)


def searches_from(
    graph: ComputationGraph, orders: Mapping[str, np.ndarray], work: np.ndarray, *, seed: int = 0
) -> dict[str, PlanSearch]:
    """A search from each of several orders; those that are the same have one, by the first name."""
    first: dict[tuple[int, ...], str] = {}
    for name, order in orders.items():
        first.setdefault(tuple(order.tolist()), name)
    return {name: PlanSearch(graph, orders[name], work, seed=seed) for name in first.values()}


def plans_within(
    searches: Mapping[str, PlanSearch], limit: int, evaluations: int, more: int
) -> dict[str, Plan]:
    """The plans of those searches that find one within a limit, improved by more evaluations."""
    return {
        name: search.improve(limit, more)
        for name, search in searches.items()
        if search.within(limit, evaluations)
    }

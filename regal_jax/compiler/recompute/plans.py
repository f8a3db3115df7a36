"""Plans of a program's kernels: which run again, so that it needs less memory."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from regal_jax import api
from regal_jax.compiler.accelerators.specifications import Specification
from regal_jax.compiler.barriers.cuts import live_bytes, valleys
from regal_jax.compiler.barriers.kernels import Kernels
from regal_jax.compiler.recompute.work import kernel_work
from regal_jax.compiler.xla.settings import Search
from regal_jax.search.recompute.search import Plan, base_orders, plans_within, searches_from

GREEDY = 20
"""Times as many evaluations may a first plan take."""


class Named(NamedTuple):
    """A plan, and the name of its base order."""

    order: str
    plan: Plan


class Lines:
    """Plans of a program's kernels, from several base orders.

    Args:
      kernels: of the program.
      how: orders and plans are searched for; the time limit is that of one base order.
      on: the accelerator that work is time on; None for FLOPs.

    Attributes:
      orders: the program's own and that of least memory, which are cut, too.
      given: bytes of arguments and of constants.
      plain: the order that needs the least memory, with each kernel once.
      within: the least work within a limit, or the least peak; each is looked for once.
      floor: a limit that there is no plan within.
    """

    def __init__(self, kernels: Kernels, how: Search, on: Specification | None):
        graph, work = kernels.graph, kernel_work(kernels, on)
        best = api.optimize(
            graph,
            num_devices=1,
            evaluations=how.evaluations,
            seed=how.seed,
            time_limit=how.time_limit,
        )
        orders = {"program": np.arange(graph.num_ops), "auto": best.ops_in_order()}
        self._graph, self._evaluations = graph, how.evaluations
        self.orders = {name: tuple(order.tolist()) for name, order in orders.items()}
        every = orders | base_orders(graph, how.seed)
        self._searches = searches_from(graph, every, work, seed=how.seed)
        self.given = int(graph.size[(graph.producer < 0) & (graph.consumers.lengths() > 0)].sum())
        self.plain = min((one.plain for one in self._searches.values()), key=lambda one: one.peak)
        self.floor = 0
        self.within: Callable[[int], Named] = functools.cache(self._within)

    def limit(self, share: float) -> int:
        """Bytes: a share of what the plain order needs beyond what is given."""
        return self.given + int(share * (self.plain.peak - self.given))

    def _within(self, limit: int) -> Named:
        most = self._evaluations
        if found := plans_within(self._searches, limit, GREEDY * most, most):
            name = min(found, key=lambda name: found[name].work)
            return Named(name, found[name])
        self.floor = max(self.floor, limit)
        nearest = {name: search.nearest for name, search in self._searches.items()}
        name = min(nearest, key=lambda name: nearest[name].peak)
        return Named(name, nearest[name])

    def places(self, name: str) -> list[int]:
        """Where to cut a base order: the valleys of what is live, the best first."""
        return valleys(live_bytes(self._graph, self.orders[name]))

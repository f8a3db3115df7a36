"""What a memory budget would do to a function: how much work is done again, estimated.

The model of its kernels in program order says it (``PlanSearch``), and nothing is compiled.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from regal_jax.compiler.barriers.kernels import Kernels
from regal_jax.compiler.recompute.work import kernel_work
from regal_jax.compiler.ways.judge import versions_of
from regal_jax.errors import CompilerError
from regal_jax.search.recompute.search import PlanSearch

if TYPE_CHECKING:
    from regal_jax.compiler.explain.explanation import Allocated

SHARES = (0.8, 0.6, 0.4)
"""Of what is allocated beyond the arguments."""

EVALUATIONS = 4000
"""Of the search for each budget's plan, and of that for less work in it."""


class Budgeted(NamedTuple):
    """A budget, and what it would take.

    Attributes:
      budget: bytes, arguments included.
      more_work: over that of the function as it is, such as 0.05; None where no plan was found.
    """

    budget: int
    more_work: float | None


def budgeted(traced: Any, allocated: "Allocated") -> list[Budgeted]:
    """What budgets would take, the largest first, to the first that no plan is found for.

    Nothing where no op may run again.

    Args:
      traced: ``jax.jit(fn).trace(...)``.
      allocated: by XLA for the compiled function.
    """
    try:
        versions = versions_of(traced, None)
    except CompilerError:  # side effects
        return []
    if not versions[0].kernels.graph.num_ops:
        return []
    searches = [_search(version.kernels) for version in versions]
    found: list[Budgeted] = []
    for share in SHARES:
        found.append(_budgeted(searches, share, allocated))
        if found[-1].more_work is None:
            break
    return found


def _search(kernels: Kernels) -> PlanSearch:
    order = np.arange(kernels.graph.num_ops)
    return PlanSearch(kernels.graph, order, kernel_work(kernels))


def _budgeted(searches: Sequence[PlanSearch], share: float, allocated: "Allocated") -> Budgeted:
    """The model's peak of the function as it is, the first, is taken for what the compiler
    allocates."""
    given, plain = allocated.parameters + allocated.constants, searches[0].plain
    budget = given + int(share * (allocated.total - given))
    limit = int(plain.peak * budget / allocated.total)
    plans = [
        search.improve(limit, EVALUATIONS)
        for search in searches
        if search.within(limit, EVALUATIONS)
    ]
    if not plans:
        return Budgeted(budget, None)
    work = min(plan.work for plan in plans)
    more = work / plain.work - 1 if plain.work else 0.0
    return Budgeted(budget, max(0.0, more))  # lean loops move fewer bytes

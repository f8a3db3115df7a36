"""What a memory budget would do to a function: how much work is done again, estimated.

The model of its kernels in program order says it (``PlanSearch``), and nothing is compiled.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from regal_jax.compiler.barriers.emission import donated_arguments, program_of
from regal_jax.compiler.barriers.kernels import kernels
from regal_jax.compiler.recompute.work import kernel_work
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
        made = kernels(program_of(traced), donated_arguments(traced))
    except CompilerError:  # side effects
        return []
    if not made.graph.num_ops:
        return []
    search = PlanSearch(made.graph, np.arange(made.graph.num_ops), kernel_work(made))
    found: list[Budgeted] = []
    for share in SHARES:
        found.append(_budgeted(search, share, allocated))
        if found[-1].more_work is None:
            break
    return found


def _budgeted(search: PlanSearch, share: float, allocated: "Allocated") -> Budgeted:
    """The model's peak is taken for what the compiler allocates."""
    given, plain = allocated.parameters + allocated.constants, search.plain
    budget = given + int(share * (allocated.total - given))
    limit = int(plain.peak * budget / allocated.total)
    if search.within(limit, EVALUATIONS) is None:
        return Budgeted(budget, None)
    plan = search.improve(limit, EVALUATIONS)
    return Budgeted(budget, plan.work / plain.work - 1 if plain.work else 0.0)

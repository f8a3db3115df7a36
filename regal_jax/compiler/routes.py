"""How a program gets to need less: on CPUs by an order behind the scheduler.

On accelerators, and within a memory budget, it is by barriers, and some of it may run again.
"""

from collections.abc import Mapping
from typing import Any

import jax

from regal_jax.compiler.accelerators.accelerator import target_of
from regal_jax.compiler.barriers.emission import check_pure
from regal_jax.compiler.ways.route import compile_way
from regal_jax.compiler.xla import reschedule
from regal_jax.compiler.xla.reschedule import Report
from regal_jax.compiler.xla.settings import Options


def compile_best(
    traced: Any,
    lowered: jax.stages.Lowered,
    options: Options,
    compiler_options: Mapping[str, Any] | None = None,
) -> tuple[jax.stages.Compiled, Report]:
    """Compiles a traced function in the best order found, for where its arguments are.

    Raises:
      CompilerError: the function has side effects, or JAX offers no way there.
      LimitError: nothing is within the memory budget.
    """
    check_pure(traced)
    target = target_of(lowered)
    if target is None and options.memory_budget is None:
        return reschedule.compile_best(lowered, options, compiler_options)
    return compile_way(traced, lowered, target, options, compiler_options)

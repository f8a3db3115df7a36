"""Running CP-SAT of Google OR-Tools, whatever the model."""

import math
from collections.abc import Callable
from typing import Any

from regal_jax.errors import MissingDependencyError, OptionError

OnFound = Callable[[Callable[[Any], int]], Any]
"""Gets each solution as a function from variables to values."""
OnBound = Callable[[float], Any]
"""Gets each new bound of the objective."""

MAX_CONSTRAINTS = 500_000
"""No model with more constraints than this is built: gigabytes of memory."""
CONSTRAINTS_PER_SECOND = 20_000
"""Nor one that would take longer to build than the limit, at this rate."""


def load():
    """ortools' ``cp_model``. Raises MissingDependencyError without the package."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise MissingDependencyError("ortools", "solvers") from None
    return cp_model


def check_limits(seconds: float, workers: int) -> None:
    """Raises OptionError for a negative time or no worker."""
    if not seconds >= 0:
        raise OptionError(f"seconds must be at least 0, got {seconds}")
    if workers < 1:
        raise OptionError(f"workers must be at least 1, got {workers}")


def most_constraints(seconds: float) -> float:
    """Constraints that a model may have, given the time limit."""
    return min(MAX_CONSTRAINTS, CONSTRAINTS_PER_SECOND * seconds)


def minimise(
    program,
    *,
    seconds: float,
    seed: int,
    workers: int,
    on_found: OnFound,
    on_bound: OnBound | None = None,
    relaxations: int = 0,
) -> float:
    """Solves ortools' CpModel ``program``, of a cost that is not negative, for at most so long.

    ``relaxations`` is CP-SAT's linearization_level.

    Returns the bound proven, in the objective's unit: infinite if there is no solution, 0 if
    nothing is known.
    """
    if seconds <= 0:
        return 0
    cp_model = load()

    solver = cp_model.CpSolver()
    solver.best_bound_callback = on_bound
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.random_seed = seed % 2**31
    solver.parameters.num_workers = workers
    # Linear relaxations of schedules are weak and slow: without them, more graphs are solved.
    solver.parameters.linearization_level = relaxations
    status = solver.solve(program, _listener(cp_model, on_found))
    if status == cp_model.INFEASIBLE:
        return math.inf
    bound = solver.best_objective_bound
    if status == cp_model.MODEL_INVALID or not math.isfinite(bound):
        return 0
    return math.ceil(bound)


def _listener(cp_model, on_found: OnFound):
    class Listener(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self):
            on_found(self.value)

    return Listener()

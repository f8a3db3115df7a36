"""The numbers that a schedule claims, against those that it has."""

import numpy as np

from regal_jax.environments.schedule import Schedule
from regal_jax.errors import ScheduleError


def check_claims(
    schedule: Schedule, peak_memory: np.ndarray, makespan: float, start: np.ndarray | None
) -> None:
    """Raises ScheduleError for a number that is not the exact one, or contradicts another.

    Args:
      schedule: what is claimed.
      peak_memory: int[D], bytes; empty on machine types.
      makespan: us, with the platform's transfer times.
      start: float64[O], us; None where a schedule's start times are not fixed by its steps.
    """
    exact = tuple(peak_memory.tolist())
    if schedule.peak_memory != exact:
        raise ScheduleError(f"peak_memory: claims {list(schedule.peak_memory)}, is {list(exact)}")
    if not _is(schedule.makespan, makespan):
        raise ScheduleError(
            f"makespan: claims {schedule.makespan}, is {makespan} with the given --latency and"
            " --per_byte"
        )
    if start is not None and schedule.start is not None:
        _check_starts(schedule.start, start)
    _check_bound(schedule)
    _check_history(schedule)


def _check_bound(schedule: Schedule) -> None:
    bound = schedule.lower_bound
    if bound is not None and bound > schedule.cost and not _is(bound, schedule.cost):
        raise ScheduleError(f"lower_bound: claims {bound}, above the cost {schedule.cost}")


def _check_history(schedule: Schedule) -> None:
    """Evaluations rise to those that were spent, costs fall to the schedule's, unless it was chosen
    on a target."""
    if min(schedule.evaluations, schedule.seconds, schedule.compile_seconds) < 0:
        raise ScheduleError("evaluations, seconds, compile_seconds: must be at least 0")
    if not schedule.history:
        return
    spent, costs = np.array(schedule.history, float).T
    if np.any(np.diff(spent) <= 0) or np.any(np.diff(costs) > 0):
        raise ScheduleError("history: evaluations must rise, and best costs may not")
    if spent[-1] > schedule.evaluations:
        raise ScheduleError(
            f"history: goes to {spent[-1]:.0f} evaluations, evaluations claims"
            f" {schedule.evaluations}"
        )
    if schedule.target_time is None and not _is(costs[-1], schedule.cost):
        raise ScheduleError(f"history: ends at the cost {costs[-1]}, is {schedule.cost}")


def _check_starts(claimed: np.ndarray, earliest: np.ndarray) -> None:
    if claimed.shape != earliest.shape:
        raise ScheduleError(f"start: has {len(claimed)} entries for {len(earliest)} ops")
    off = np.flatnonzero(~np.isclose(claimed, earliest, rtol=1e-9, atol=1e-9))
    if off.size:
        op = int(off[0])
        raise ScheduleError(f"start: op {op} claims {claimed[op]}, is {earliest[op]}")


def _is(claimed: float, exact: float) -> bool:
    return bool(np.isclose(claimed, exact, rtol=1e-9))

"""Many schedules of one graph at once, as arrays: their exact makespans, and the best of them.

Candidates of generative scheduling (gflownet_robust_scheduling, 2.3): a method samples many
schedules, and those of least makespan are tried on the target. Memory capacities are not looked at.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from regal_jax.environments.construction.chains import previous_ops
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.placement.tasks import task_graph
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import OptionError, ScheduleError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.native.compilation import jit_with_arrays
from regal_jax.native.threads import over_threads
from regal_jax.search.orders import rules


class Candidates(NamedTuple):
    """N schedules of O ops.

    Attributes:
      placement: int32[N, O], device per op.
      sequence: int32[N, O], the ops in an order in which producers come before their consumers;
        each device runs its own ops in that order.
    """

    placement: np.ndarray
    sequence: np.ndarray


def from_schedules(schedules: Sequence[Schedule]) -> Candidates:
    """The candidates of some schedules of one graph, at least one."""
    return Candidates(
        np.stack([schedule.placement for schedule in schedules]).astype(np.int32),
        np.stack([schedule.ops_in_order() for schedule in schedules]).astype(np.int32),
    )


def from_starts(
    graph: ComputationGraph,
    start: np.ndarray,
    num_devices: int,
    rng: np.random.Generator | None = None,
) -> Candidates:
    """Candidates that start ops when they are planned to, each on a device that is free then.

    Ops are placed by their start; of those that start together, what takes no time goes first, then
    by topological position. No start is later than planned, if transfers take no time.

    Args:
      graph: the graph.
      start: float64[N, O], us, of plans in which an op starts after its producers have ended and at
        most ``num_devices`` ops run at once.
      num_devices: D.
      rng: chooses one of the free devices; without, the first of them.

    Raises:
      ScheduleError: if more ops than devices run at once.
    """
    topological = graph.topological_order
    planned = start[:, topological]
    by_start = np.lexsort((planned + graph.duration[topological], planned))
    sequence = topological[by_start].astype(np.int32)
    ties = np.zeros(sequence.shape) if rng is None else rng.random(sequence.shape)
    placement = np.empty_like(sequence)
    failed = np.zeros(len(sequence), np.bool_)

    def run(first: int, last: int) -> None:
        part = slice(first, last)
        plans = (start[part], sequence[part], ties[part])
        _assign(graph.duration, plans, num_devices, placement[part], failed[part])

    over_threads(run, len(sequence), sequence.size)
    if failed.any():
        raise ScheduleError(
            f"start: plan {int(failed.argmax())} runs more than {num_devices} ops at once"
        )
    return Candidates(placement, sequence)


def makespans(problem: PlacementProblem, candidates: Candidates) -> np.ndarray:
    """float64[N], us: exact makespans of candidates (BUILD_NOTES.md, section 3), on all cores.

    Raises:
      OptionError: if the problem's objective is another.
      ScheduleError: for a candidate that is not a schedule of the problem.
    """
    if problem.objective != "makespan":
        raise OptionError(f"candidates are for the objective makespan, not {problem.objective}")
    _check(problem, candidates)
    tasks = task_graph(problem.graph, problem.platform)
    task = np.argsort(tasks.op)
    makespan = np.empty(len(candidates.sequence))

    def run(first: int, last: int) -> None:
        rows = (candidates.placement[first:last], candidates.sequence[first:last])
        _simulate(tasks, task, rows, problem.num_devices, makespan[first:last])

    work = len(makespan) * (len(tasks.duration) + len(tasks.after))
    over_threads(run, len(makespan), work)
    wrong = np.flatnonzero(makespan < 0)
    if wrong.size:
        raise ScheduleError(
            f"candidate {wrong[0]}: the sequence repeats an op, or runs one before its producer"
        )
    return makespan


def best_schedules(problem: PlacementProblem, candidates: Candidates, count: int) -> list[Schedule]:
    """The ``count`` candidates of least makespan, best first (ties: the first), exactly costed.

    Candidates that are equal up to the names of the identical devices count once (the paper doesn't
    say whether its top 100 has repeats), so that there may be fewer.

    Raises:
      OptionError: if the problem's objective is another, or ``count`` is below 1.
      ScheduleError: for a candidate that is not a schedule of the problem.
    """
    if count < 1:
        raise OptionError(f"count must be at least 1, got {count}")
    ranking = np.argsort(makespans(problem, candidates), kind="stable")
    ranked = Candidates(candidates.placement[ranking], candidates.sequence[ranking])
    best = distinct(ranked, count)
    return [_schedule(problem, best, row) for row in range(len(best.sequence))]


def distinct(candidates: Candidates, count: int) -> Candidates:
    """The first ``count`` candidates of which none are equal up to the names of the devices."""
    _, first = np.unique(chains(candidates), axis=0, return_index=True)
    kept = np.sort(first)[:count]
    return Candidates(candidates.placement[kept], candidates.sequence[kept])


def chains(candidates: Candidates) -> np.ndarray:
    """int32[N, O]: see ``previous_ops``."""
    return previous_ops(*candidates)


def _schedule(problem: PlacementProblem, candidates: Candidates, row: int) -> Schedule:
    schedule = rules.build_schedule(
        problem.graph,
        candidates.sequence[row],
        candidates.placement[row],
        objective=problem.objective,
        num_devices=problem.num_devices,
    )
    return problem.costed(schedule)


def _check(problem: PlacementProblem, candidates: Candidates) -> None:
    """Raises ScheduleError for a shape or an index that the compiled loop can't take."""
    num_ops = problem.graph.num_ops
    shape = (len(candidates.sequence), num_ops)
    for column, most in zip(candidates, (problem.num_devices, num_ops), strict=True):
        if column.shape != shape:
            raise ScheduleError(f"candidates have shape {column.shape}, not {shape}")
        if column.min(initial=0) < 0 or column.max(initial=-1) >= most:
            raise ScheduleError(f"candidates have an index that is not in 0..{most - 1}")


@jit_with_arrays
def _simulate(tasks, task, rows, num_devices, makespan):
    """Makespans, us; -1 for a sequence that is not a topological order. ``task`` is by op."""
    placement, sequence = rows
    num_ops = placement.shape[1]
    arrival, free = np.empty(num_ops), np.empty(num_devices)
    done = np.empty(num_ops, np.bool_)
    for row in range(len(makespan)):
        arrival[:], free[:], done[:], valid = 0.0, 0.0, False, True
        for op in sequence[row]:
            this, device = task[op], placement[row, op]
            valid = not done[this]
            finish = max(free[device], arrival[this]) + tasks.duration[this]
            free[device], done[this] = finish, True
            for edge in range(tasks.offsets[this], tasks.offsets[this + 1]):
                after = tasks.after[edge]
                crosses = placement[row, tasks.op[after]] != device
                there = finish + tasks.delay[edge] if crosses else finish
                arrival[after] = max(arrival[after], there)
                valid &= not done[after]
            if not valid:
                break
        makespan[row] = free.max() if valid else -1.0


@jit_with_arrays
def _assign(duration, plans, num_devices, placement, failed):
    """Each op on the free device of least tie-breaking number."""
    start, sequence, ties = plans
    free = np.empty(num_devices)
    for row in range(len(sequence)):
        free[:] = 0.0
        for place, op in enumerate(sequence[row]):
            count = 0
            for device in range(num_devices):
                count += free[device] <= start[row, op]
            if count == 0:
                failed[row] = True
                break
            skipped = int(ties[row, place] * count)
            for device in range(num_devices):
                if free[device] <= start[row, op]:
                    if skipped == 0:
                        placement[row, op] = device
                        free[device] = start[row, op] + duration[op]
                        break
                    skipped -= 1

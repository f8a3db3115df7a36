"""The public functions: optimize a graph's schedule, evaluate one."""

import time
from pathlib import Path
from typing import get_args

from regal_jax.environments import feasibility
from regal_jax.environments.feasibility import Cost
from regal_jax.environments.platform import Platform
from regal_jax.environments.problem import PlacementProblem
from regal_jax.environments.schedule import Objective, Schedule
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.methods import (
    WITH_POLICY,
    Budget,
    Decoding,
    OnProgress,
    default_evaluations,
    find_method,
)


def optimize(
    graph: ComputationGraph,
    *,
    objective: Objective = "peak_memory",
    num_devices: int = 2,
    method: str = "auto",
    evaluations: int | None = None,
    seed: int = 0,
    memory_capacity: int | tuple[int, ...] | None = None,
    latency: float = 0.0,
    per_byte: float = 0.0,
    policy: str | Path | None = None,
    time_limit: float | None = None,
    decoding: Decoding = "beam",
    on_progress: OnProgress | None = None,
) -> Schedule:
    """Searches for a schedule of low cost.

    Args:
      graph: the graph.
      objective: "peak_memory" (bytes of the fullest device) or "makespan" (us).
      num_devices: D.
      method: a name of ``regal_jax.methods.METHODS``. "auto" (the same as
        "portfolio") improves on the best of the cheap orders and placements, so it is never worse
        than these; "regal", "brkga" and the other published ones begin from nothing.
      evaluations: budget, in calls of the cost on one chromosome, or on one move from a schedule;
        None is ``methods.default_evaluations``: 5000 but for "auto" and "portfolio".
      seed: same seed, same schedule (on the same platform).
      memory_capacity: bytes per device; schedules within it always beat others.
      latency, per_byte: us, of a tensor that crosses devices.
      policy: file of a trained policy, instead of the shipped one; for "regal", "idrs", "gas"
        and "topoformer".
      time_limit: seconds after which a search ends with the best so far; it is looked at every few
        generations. With a limit the result depends on the machine's speed.
      decoding: of "topoformer": "greedy" (one order), "sample" (the best of as many as
        evaluations), or "beam" search of that width.
      on_progress: called with (evaluations so far, best cost so far) now and then.

    Returns:
      The schedule, with its exact costs, a lower bound and the history of the search.

    Raises:
      OptionError: for an option out of range, or a method that does not fit.
    """
    problem = PlacementProblem(
        graph,
        num_devices,
        objective,
        memory_capacity=memory_capacity,
        latency=latency,
        per_byte=per_byte,
    )
    run = find_method(method)
    if not isinstance(seed, int) or seed < 0:
        raise OptionError(f"seed must be an integer >= 0, got {seed!r}")
    if time_limit is not None and not time_limit > 0:
        raise OptionError(f"time_limit must be a positive number of seconds, got {time_limit}")
    begin = time.perf_counter()
    deadline = float("inf") if time_limit is None else begin + time_limit
    if policy is not None and method not in WITH_POLICY:
        raise OptionError(f"{method} reads no policy; {', '.join(WITH_POLICY)} do")
    if evaluations is None:
        timed = time_limit is not None
        evaluations = default_evaluations(method, graph.num_ops, timed=timed)
    if decoding not in get_args(Decoding):
        raise OptionError(f"decoding must be one of {', '.join(get_args(Decoding))}: {decoding!r}")
    budget = Budget(evaluations, seed, policy, deadline, decoding)
    if on_progress is not None:
        budget = budget._replace(on_progress=on_progress)
    found = run(problem, budget)
    schedule = problem.decode(found.chromosome)
    return schedule.replace(
        lower_bound=max(problem.lower_bound, found.lower_bound),
        method=method,
        evaluations=found.evaluations,
        seed=seed,
        seconds=round(time.perf_counter() - begin, 6),
        history=found.history,
    )


def evaluate(
    graph: ComputationGraph,
    schedule: Schedule,
    *,
    memory_capacity: int | tuple[int, ...] | None = None,
    latency: float = 0.0,
    per_byte: float = 0.0,
) -> Cost:
    """Validates a schedule and computes its exact cost; see ``feasibility.evaluate``.

    Raises ScheduleError for an invalid schedule, or one beyond the memory capacity.
    """
    platform = Platform(schedule.num_devices, memory_capacity, latency, per_byte)
    return feasibility.evaluate(graph, schedule, platform)

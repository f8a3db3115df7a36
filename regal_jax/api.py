"""The public functions: optimize a graph's schedule, evaluate one."""

import time
from pathlib import Path
from typing import get_args

import numpy as np

from regal_jax.environments.placement import checker as placement_checker
from regal_jax.environments.placement.checker import Cost
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.environments.rcpsp import checker as rcpsp_checker
from regal_jax.environments.rcpsp.problem import Generation, MachineProblem
from regal_jax.environments.schedule import Objective, Schedule
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.methods import (
    WITH_POLICY,
    AnyTarget,
    Budget,
    Decoding,
    OnProgress,
    as_target,
    best_on_target,
    check_options,
    default_evaluations,
    default_machine_evaluations,
    find_machine_method,
    find_method,
    method_for,
)


def optimize(
    graph: ComputationGraph,
    *,
    objective: Objective = "peak_memory",
    num_devices: int | None = None,
    method: str = "auto",
    evaluations: int | None = None,
    seed: int = 0,
    memory_capacity: int | tuple[int, ...] | None = None,
    latency: float = 0.0,
    per_byte: float = 0.0,
    policy: str | Path | None = None,
    time_limit: float | None = None,
    decoding: Decoding | None = None,
    generation: Generation | None = None,
    temperature: float | None = None,
    target: AnyTarget | None = None,
    candidates: int | None = None,
    on_progress: OnProgress | None = None,
) -> Schedule:
    """Searches for a schedule of low cost.

    A graph with ``capacity`` is scheduled on its machine types if the objective is the makespan
    (``MachineProblem``), all other problems place ops on identical devices (``PlacementProblem``).

    Args:
      graph: the graph.
      objective: "peak_memory" (bytes of the fullest device) or "makespan" (us).
      num_devices: D, 2 unless given. For graphs with capacity the number of machine types.
      method: a name of ``regal_jax.methods.METHODS`` or, for machine types, of
        ``MACHINE_METHODS``. "auto" (the same as "portfolio") improves on the best of the cheap
        orders and placements, or rules, so it is never worse than these;
        "regal", "brkga" and the other published ones begin from nothing. With a target, "auto" is
        "price_sweep".
      evaluations: budget, in calls of the cost on one chromosome, or on one move from a schedule;
        None is ``methods.default_evaluations``: 5000 but for "auto", "portfolio" and samplers
        (1000 samples); or ``methods.default_machine_evaluations``.
      seed: same seed, same schedule (on the same platform).
      memory_capacity: bytes per device; schedules within it always beat others.
      latency, per_byte: us, of a tensor that crosses devices.
      policy: file of a trained policy, instead of the shipped one, for ``methods.WITH_POLICY``.
      time_limit: seconds after which a search ends with the best so far; it is looked at every few
        generations, and by samplers that don't search not at all. With a limit the result depends
        on the machine's speed.
      decoding: of "topoformer": "greedy" (one order), "sample" (the best of as many as
        evaluations), "beam" search of that width, or "guided" (its default): from the beam of 16
        on, dynamic programmes of that width below the best peak, in which the policy breaks ties.
        Of "one_shot": "greedy", "sample" (its default, and the only one on identical devices), or
        "brkga", that begins with samples.
      generation: how priorities become a schedule on machine types, see ``MachineProblem``;
        "parallel" unless given, for "one_shot" that of its policy. ("auto", "justification" and
        "cp_sat" have their own.)
      temperature: of "gflownet", "ppo" and "list_sampling", how much samples differ; positive. None
        is the method's own.
      target: what schedules really take: a function schedule -> us (``simulated``, ``measured``, or
        any other), a ``TargetModel``, or the path of its TOML file. A method of
        ``methods.SAMPLERS`` then tries its best schedules by makespan on it, best first, and
        returns the one that takes least there, with ``target_time``; its other costs and its bound
        are those of this problem.
      candidates: how many are tried on the target, 100 unless given. Those beyond the memory
        capacity are left out, unless all are.
      on_progress: called with (evaluations so far, best cost so far) now and then.

    Returns:
      The schedule, with its exact costs, a lower bound and the history of the search.

    Raises:
      OptionError: for an option out of range, or a method that does not fit.
    """
    if not isinstance(seed, int) or seed < 0:
        raise OptionError(f"seed must be an integer >= 0, got {seed!r}")
    if time_limit is not None and not time_limit > 0:
        raise OptionError(f"time_limit must be a positive number of seconds, got {time_limit}")
    if policy is not None and method not in WITH_POLICY:
        raise OptionError(f"{method} reads no policy; {', '.join(WITH_POLICY)} do")
    if decoding is not None and decoding not in get_args(Decoding):
        raise OptionError(f"decoding must be one of {', '.join(get_args(Decoding))}: {decoding!r}")
    method = method_for(method, target)
    check_options(method, target=target, candidates=candidates, temperature=temperature)
    begin = time.perf_counter()
    on_machines = has_machines(graph, objective)
    if evaluations is None:
        budgets = default_machine_evaluations if on_machines else default_evaluations
        timed = time_limit is not None
        evaluations = budgets(method, graph.num_ops, decoding, timed=timed)
    deadline = float("inf") if time_limit is None else begin + time_limit
    budget = Budget(evaluations, seed, policy, deadline, decoding, generation, temperature)
    if on_progress is not None:
        budget = budget._replace(on_progress=on_progress)
    if on_machines:
        if target is not None:
            raise OptionError("targets are for identical devices; the graph has machine types")
        platform = (memory_capacity, latency, per_byte)
        schedule = _on_machines(graph, method, budget, num_devices, platform)
    else:
        if generation is not None:
            raise OptionError("generation is for graphs with machine types (a capacity)")
        problem = PlacementProblem(
            graph,
            2 if num_devices is None else num_devices,
            objective,
            memory_capacity=memory_capacity,
            latency=latency,
            per_byte=per_byte,
        )
        if target is None:
            schedule = _on_devices(problem, method, budget)
        else:
            schedule = best_on_target(problem, method, budget, as_target(graph, target), candidates)
    return schedule.replace(method=method, seed=seed, seconds=round(time.perf_counter() - begin, 6))


def has_machines(graph: ComputationGraph, objective: Objective) -> bool:
    """Whether a graph is scheduled on its machine types, rather than on identical devices."""
    return graph.capacity is not None and objective == "makespan"


def _on_devices(problem: PlacementProblem, method: str, budget: Budget) -> Schedule:
    found = find_method(method)(problem, budget)
    return problem.decode(found.chromosome).replace(
        lower_bound=max(problem.lower_bound, found.lower_bound),
        evaluations=found.evaluations,
        history=found.history,
    )


def _on_machines(
    graph: ComputationGraph, method: str, budget: Budget, num_devices, platform
) -> Schedule:
    run = find_machine_method(method)
    problem = MachineProblem(graph, generation=budget.generation or "parallel")
    if num_devices is not None and num_devices != problem.num_types:
        raise OptionError(
            f"num_devices is {num_devices}, but the graph has {problem.num_types} machine types"
        )
    if platform != (None, 0.0, 0.0):
        raise OptionError(
            "memory_capacity, latency and per_byte don't apply to graphs with machine types"
        )
    found = run(problem, budget)
    return problem.scheduled(found.start).replace(
        lower_bound=max(problem.lower_bound, found.lower_bound),
        evaluations=found.evaluations,
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
    """Validates a schedule and computes its exact cost; see ``placement_checker.evaluate``.

    On machine types (``has_machines``) only start times count: see
    ``rcpsp_checker.evaluate_machines``; there is no memory.

    Raises ScheduleError for an invalid schedule, or one beyond the memory capacity.
    """
    if has_machines(graph, schedule.objective):
        makespan = rcpsp_checker.evaluate_machines(graph, schedule)
        assert schedule.start is not None
        return Cost(np.empty(0, np.int64), makespan, schedule.start)
    platform = Platform(schedule.num_devices, memory_capacity, latency, per_byte)
    return placement_checker.evaluate(graph, schedule, platform)

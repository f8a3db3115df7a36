"""The public functions: optimize a graph's schedule, evaluate one."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from regal_jax import compile_clock, registry
from regal_jax.environments.base import Problem, has_machines
from regal_jax.environments.execution.targets import Target
from regal_jax.environments.placement import checker as placement_checker
from regal_jax.environments.placement.checker import Cost
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.environments.rcpsp import checker as rcpsp_checker
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import OptionError, ParameterError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.options import Budget, OnProgress, Options, Result, check_temperature
from regal_jax.registry import Method


def optimize(
    graph: ComputationGraph,
    options: Options | None = None,
    *,
    on_progress: OnProgress | None = None,
    **changes: Any,
) -> Schedule:
    """Searches for a schedule of low cost.

    Args:
      graph: the graph.
      options: what is asked for; by default ``Options()``.
      on_progress: called with (evaluations so far, best cost so far) now and then.
      **changes: fields of ``Options`` by name: ``optimize(graph, objective="makespan")``.

    Returns:
      The schedule, with its exact costs, a lower bound and the history of the search. If nothing
      that was found keeps a memory capacity, the one least beyond it, which ``evaluate`` refuses.

    Raises:
      OptionError: for an option out of range, or a method that does not fit.
      ParameterError: for a policy file of another network than this version's.
    """
    return run(plan(graph, options, **changes), on_progress)


class Plan(NamedTuple):
    """A search that is ready to run.

    Attributes:
      problem, method, budget: what is searched, how, and for how long.
      target: what schedules really take, if they are tried on one.
      begin: ``time.perf_counter()`` when it was made. compiled: ``compile_clock.seconds()`` then.
    """

    problem: Problem
    method: Method
    budget: Budget
    target: Target | None
    begin: float
    compiled: float


def plan(graph: ComputationGraph, options: Options | None = None, **changes: Any) -> Plan:
    """Resolves options: the problem, the method and its budget. Raises OptionError."""
    begin, compiled = time.perf_counter(), compile_clock.seconds()
    options = _options(options, changes)
    if _auto_on_target(options) and options.candidates is None and options.trials is None:
        options = dataclasses.replace(options, trials=_robust().TRIALS)
    environment = registry.environment_for(graph, options)
    method = _method(options, environment.name)
    _check_reads(method, options)
    problem = environment.make(graph, options)
    evaluations = options.evaluations
    if evaluations is None:
        own = method.evaluations
        evaluations = own(graph.num_ops, options) if callable(own) else own
    deadline = np.inf if options.time_limit is None else begin + options.time_limit
    budget = Budget(evaluations, options.seed, deadline, options)
    target = None if options.target is None else _robust().as_target(graph, options.target)
    return Plan(problem, method, budget, target, begin, compiled)


def run(plan: Plan, on_progress: OnProgress | None = None) -> Schedule:
    """The schedule of a plan, with what is known of its origin."""
    budget = plan.budget
    if on_progress is not None:
        budget = budget._replace(on_progress=on_progress)
    try:
        result = _searched(plan, budget)
    except ParameterError as error:
        raise ParameterError(f"{budget.options.policy or 'shipped'}: {error}") from None
    _check_result(result, plan.method.name)
    compiled = compile_clock.seconds() - plan.compiled
    return result.schedule.replace(
        lower_bound=max(plan.problem.lower_bound, result.lower_bound),
        evaluations=result.evaluations,
        history=tuple(result.history),
        method=plan.method.name,
        seed=budget.seed,
        seconds=round(time.perf_counter() - plan.begin - compiled, 6),
        compile_seconds=round(compiled, 6),
    )


def _searched(plan: Plan, budget: Budget) -> Result:
    if plan.target is None:
        return plan.method.run(plan.problem, budget)
    assert isinstance(plan.problem, PlacementProblem)
    return _robust().best_on_target(plan.problem, plan.method.name, budget, plan.target)


def _robust() -> Any:
    """The samplers, with all their networks, which are for targets alone."""
    from regal_jax.methods import robust

    return robust


def _options(options: Options | None, changes: dict[str, Any]) -> Options:
    known = [field.name for field in dataclasses.fields(Options)]
    unknown = [name for name in changes if name not in known]
    if unknown:
        raise TypeError(f"optimize has no option {unknown[0]!r}; it has {', '.join(known)}")
    return dataclasses.replace(options or Options(), **changes)


def _method(options: Options, problem: str) -> Method:
    if callable(options.method):
        return _given(options.method, problem)
    name = _robust().ON_TARGETS if _auto_on_target(options) else options.method
    return registry.find_method(name, problem)


def _auto_on_target(options: Options) -> bool:
    return options.target is not None and options.method in ("auto", "portfolio")


def _given(run: Callable[..., Any], problem: str) -> Method:
    """A function as a method, named after itself."""
    return Method(getattr(run, "__name__", type(run).__name__), run, (problem,))


def _check_reads(method: Method, options: Options) -> None:
    """Raises OptionError for an option that the method has no use for."""
    methods = lambda: registry.entries("method").values()  # noqa: E731
    if options.policy is not None and not method.reads_policy:
        readers = dict.fromkeys(one.name for one in methods() if one.reads_policy)
        raise OptionError(f"{method.name} reads no policy; {', '.join(readers)} do")
    if options.temperature is not None:
        if not method.has_temperature:
            tempered = dict.fromkeys(one.name for one in methods() if one.has_temperature)
            raise OptionError(f"{method.name} has no temperature; {', '.join(tempered)} do")
        check_temperature(options.temperature)
    _check_target(method, options)


def _check_target(method: Method, options: Options) -> None:
    if options.target is not None and method.name not in (known := registry.names("sampler")):
        raise OptionError(
            f"{method.name} makes no candidates to try on a target; {', '.join(known)} do"
        )
    if options.candidates is not None and options.trials is not None:
        raise OptionError("candidates are tried all at once, trials one by one: give one of them")
    for name in ("candidates", "trials"):
        if (number := getattr(options, name)) is None:
            continue
        if options.target is None:
            raise OptionError(f"{name} are what is tried on a target, but none is given")
        if not isinstance(number, int) or number < 1:
            raise OptionError(f"{name} must be an integer >= 1, got {number!r}")


def _check_result(result: Any, name: str) -> None:
    if not isinstance(result, Result):
        raise OptionError(
            f"method {name} must return a regal_jax.Result, not {type(result).__name__}"
        )


def evaluate(
    graph: ComputationGraph,
    schedule: Schedule,
    *,
    memory_capacity: int | tuple[int, ...] | None = None,
    latency: float = 0.0,
    per_byte: float = 0.0,
) -> Cost:
    """Validates a schedule and computes its exact cost; see ``placement.checker.evaluate``.

    On machine types (``has_machines``) only start times count: see
    ``rcpsp.checker.evaluate_machines``; there is no memory.

    Raises ScheduleError for an invalid schedule, or one beyond the memory capacity.
    """
    if has_machines(graph, schedule.objective):
        makespan = rcpsp_checker.evaluate_machines(graph, schedule)
        assert schedule.start is not None
        return Cost(np.empty(0, np.int64), makespan, schedule.start)
    platform = Platform(schedule.num_devices, memory_capacity, latency, per_byte)
    return placement_checker.evaluate(graph, schedule, platform)

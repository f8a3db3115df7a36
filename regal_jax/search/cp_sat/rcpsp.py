"""CP-SAT for machine problems: exact list-scheduling problems by constraint programming.

The model of the one-shot priority sampling paper, appendix D.2: an interval an op, precedence, no
more demand on a machine type than its capacity at any time, warm started from list scheduling. Our
additions: the least and the latest start of each op narrow its variable; ops that can't run at the
same time don't overlap, whatever their demands; a proven bound also where the search is cut short.

Times are whole numbers, rounded down where need be (``integer_times``). The paper rounds to the
nearest thousandth instead, so that its makespans are off by that; here each of CP-SAT's schedules
is timed anew with the exact durations, its ops in the same order, and costs what it really costs.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.cp_sat import solver
from regal_jax.search.cp_sat.integer_times import time_unit
from regal_jax.search.rcpsp import rules
from regal_jax.search.rcpsp.justification import retime

ROUNDING = 1e-6
"""Relatively so close to the bound, a makespan counts as optimal where times were rounded."""

OnChange = Callable[[float, float, float], None]


class MachineSolution(NamedTuple):
    """What the solver found.

    Attributes:
      start: float64[O], us: the best schedule. makespan: us.
      bound: no schedule is shorter, us.
      optimal: whether the schedule is proven to be the shortest.
      history: (seconds, makespan, bound) whenever one of the two changed; the warm start is first.
    """

    start: np.ndarray
    makespan: float
    bound: float
    optimal: bool
    history: tuple[tuple[float, float, float], ...]


class _Model(NamedTuple):
    """A CP-SAT model: ortools' program, the start of each op, and the latest end."""

    program: Any
    starts: list[Any]
    makespan: Any


def solve(
    graph: ComputationGraph,
    *,
    seconds: float,
    start: np.ndarray | None = None,
    seed: int = 0,
    workers: int = 1,
    on_change: OnChange = lambda seconds, makespan, bound: None,
) -> MachineSolution:
    """The shortest schedule CP-SAT finds within a time limit, and how short any can be.

    Two runs that finish in time with one worker and one seed are the same. A graph too large to
    model (``solver``'s limits) gives the warm start and ``MachineProblem.lower_bound``.

    Args:
      graph: with machine types, demands and capacities.
      seconds: wall-clock limit, with the building of the model.
      start: float64[O], us: a valid schedule to start from; list scheduling by the critical path
        unless given. What is returned is never longer.
      seed: of the solver's random choices. workers: threads; each has another strategy.
      on_change: called with each new entry of the history.

    Raises:
      MissingDependencyError: without the package ortools. OptionError: for an option out of range.
      GraphError: for a graph without a schedule.
    """
    began = time.monotonic()
    cp_model = solver.load()
    solver.check_limits(seconds, workers)
    problem = MachineProblem(graph, generation="serial")
    best = _Best(problem, began, on_change)
    best.offer(_list_schedule(graph) if start is None else start)
    unit = time_unit(graph.duration, float(np.sum(graph.duration)))
    pairs = precedence.transitive_reduction(graph)
    small = len(pairs) + 2 * graph.num_ops <= solver.most_constraints(seconds)
    if unit is None or not small or best.makespan <= best.bound:
        return best.solution(exact=True)
    whole = graph.replace(duration=np.array(unit.whole(graph.duration), np.float64))
    model = _build_model(cp_model.CpModel(), whole, pairs, best.start)
    proven = solver.minimise(
        model.program,
        seconds=seconds - (time.monotonic() - began),
        seed=seed,
        workers=workers,
        on_found=lambda value: best.offer(np.array([value(x) for x in model.starts], np.float64)),
        on_bound=lambda bound: best.prove(unit.bound(bound, graph.num_ops)),
    )
    best.prove(unit.bound(proven, graph.num_ops))
    return best.solution(exact=unit.exact)


class _Best:
    """The best schedule and bound so far, and how they came about."""

    def __init__(self, problem: MachineProblem, began: float, on_change: OnChange):
        self.problem, self.began, self.on_change = problem, began, on_change
        self.start = np.zeros(problem.num_ops)
        self.makespan = float("inf")
        self.bound = problem.lower_bound
        self.history: list[tuple[float, float, float]] = []

    def offer(self, start: np.ndarray) -> None:
        """Takes a schedule, of which only the order of starts counts, if it is shorter."""
        start = retime(self.problem, start)
        makespan = float(np.max(start + self.problem.graph.duration))
        if makespan < self.makespan:
            self.start, self.makespan = start, makespan
            self._record()

    def prove(self, bound: float) -> None:
        if bound > self.bound:
            self.bound = bound
            self._record()

    def _record(self) -> None:
        entry = (time.monotonic() - self.began, self.makespan, min(self.bound, self.makespan))
        self.history.append(entry)
        self.on_change(*entry)

    def solution(self, *, exact: bool) -> MachineSolution:
        """What is known in the end; a bound is never above a makespan that was reached."""
        slack = 0.0 if exact else ROUNDING
        bound = min(self.bound, self.makespan)
        optimal = self.makespan <= self.bound * (1 + slack)
        return MachineSolution(self.start, self.makespan, bound, optimal, tuple(self.history))


def _list_schedule(graph: ComputationGraph) -> np.ndarray:
    """float64[O], us: starts by list scheduling along critical paths."""
    genes = rules.genes(rules.critical_path(graph))
    start = MachineProblem(graph).decode(genes).start
    assert start is not None
    return start


def _build_model(program, graph: ComputationGraph, pairs: np.ndarray, known: np.ndarray) -> _Model:
    """The model of schedules no longer than a known one, which is its hint.

    ``graph`` has durations in units; ``known`` are starts in any unit.
    """
    problem = MachineProblem(graph, generation="serial")
    known = retime(problem, known)
    latest = int(np.max(known + graph.duration))
    head, tail = precedence.top_levels(graph), precedence.bottom_levels(graph)
    starts = [
        program.new_int_var(int(before), latest - int(after), "")
        for before, after in zip(head, tail, strict=True)
    ]
    makespan = program.new_int_var(min(int(problem.lower_bound), latest), latest, "")
    program.minimize(makespan)
    _add_precedence(program, graph, pairs, starts, makespan)
    for machine_type, members in _by_type(graph):
        _add_machines(program, graph, machine_type, members, starts)
    for variable, value in zip([*starts, makespan], [*known, latest], strict=True):
        program.add_hint(variable, int(value))
    return _Model(program, starts, makespan)


def _add_precedence(program, graph: ComputationGraph, pairs: np.ndarray, starts, makespan) -> None:
    duration = graph.duration.astype(int).tolist()
    for before, after in pairs.tolist():
        program.add(starts[before] + duration[before] <= starts[after])
    for op in np.setdiff1d(np.arange(graph.num_ops), pairs[:, 0]).tolist():
        program.add(starts[op] + duration[op] <= makespan)


def _by_type(graph: ComputationGraph) -> Iterator[tuple[int, np.ndarray]]:
    """(machine type, its ops that hold something for some time) of each type that has any."""
    holds = (graph.demand > 0) & (graph.duration > 0)
    for machine_type in np.unique(graph.machine_type).tolist():
        members = np.flatnonzero((graph.machine_type == machine_type) & holds)
        if len(members):
            yield machine_type, members


def _add_machines(program, graph, machine_type: int, members: np.ndarray, starts) -> None:
    """No more demand than capacity at any time."""
    intervals = [
        program.new_fixed_size_interval_var(starts[op], int(graph.duration[op]), "")
        for op in members.tolist()
    ]
    demand, capacity = graph.demand[members], int(graph.capacity[machine_type])
    if 2 * int(demand.min()) > capacity:
        program.add_no_overlap(intervals)
    elif int(demand.sum()) > capacity:
        program.add_cumulative(intervals, demand.tolist(), capacity)

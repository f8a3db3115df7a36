"""CP-SAT (REGAL, section 4.2): exact scheduling by constraint programming with Google OR-Tools.

The paper's model is "of the operation execution order, tensor lifetimes, and cumulative constraints
to evaluate peak memory usage" and isn't published; ours is in ``memory``. Beyond the paper:
makespan (``makespan``), with or without a memory capacity; a proven bound also where the
search is cut short; a warm start from any schedule. The paper gave the solver 12 hours.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from regal_jax.environments.placement import bounds, checker
from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Objective, Schedule, check_objective
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.cp_sat import makespan, memory, solver

MAX_OPS = 3000
"""Beyond so many ops no model is built."""
ROUNDING = 1e-6
"""Relatively so close to the bound, a makespan counts as optimal where times were rounded."""

OnSolution = Callable[[float, float], None]


class Solution(NamedTuple):
    """What the solver found.

    Attributes:
      schedule: the best schedule within the memory capacity, with its costs; None if there is none.
      bound: no schedule within the capacity costs less (bytes of the fullest device, or us);
        infinite if there is provably no such schedule.
      optimal: whether the schedule is proven to be the cheapest.
      history: (seconds, cost) whenever the best schedule changed; a hint that fits is first.
    """

    schedule: Schedule | None
    bound: float
    optimal: bool
    history: tuple[tuple[float, float], ...]


class Parts(NamedTuple):
    """What is modelled of a graph on a platform.

    Attributes:
      memory: None for a makespan without memory capacity.
      time: None for peak memory.
      pairs: int[P, 2], ops to order in time and in memory alike, where both are modelled.
    """

    memory: memory.MemoryParts | None
    time: makespan.TimeParts | None
    pairs: np.ndarray


class Model(NamedTuple):
    """A CP-SAT model.

    Attributes:
      program: ortools' CpModel.
      parts: what it is a model of.
      ranked: ops in the order that numbers identical devices; None if devices differ.
      placement: [O][D] literals.
      cost: the variable that is minimised, in units of memory or time.
      peaks: of each device, in units, where devices are limited; or empty.
      memory: the variables of memory, or None.
      starts: [O] start of each op, or None.
      orders: for each of the pairs, whether the first op is first.
    """

    program: Any
    parts: Parts
    ranked: np.ndarray | None
    placement: memory.Placement
    cost: Any
    peaks: list[Any]
    memory: memory.MemoryVariables | None
    starts: list[Any] | None
    orders: list[Any]


def solve(
    graph: ComputationGraph,
    platform: Platform,
    objective: Objective,
    *,
    seconds: float,
    hint: Schedule | None = None,
    seed: int = 0,
    workers: int = 1,
    on_solution: OnSolution = lambda seconds, cost: None,
) -> Solution:
    """The best schedule CP-SAT finds within a time limit, and how good any schedule can be.

    Two runs that finish in time with one worker and one seed are the same. A graph too large to
    model (``MAX_OPS``, ``solver``'s limits, sums beyond int64) gives the hint and the bound
    of ``bounds``.

    Args:
      graph, platform, objective: what to schedule; schedules stay within the memory capacity.
      seconds: wall-clock limit, with the building of the model.
      hint: a schedule to start from, returned if nothing better is found. It may exceed the
        capacity; then it is a starting point only.
      seed: of the solver's random choices.
      workers: threads; CP-SAT runs another strategy on each.
      on_solution: called with the seconds so far and the cost of every new best schedule.

    Raises:
      MissingDependencyError: without the package ortools. OptionError: for an option out of range.
      ScheduleError: for a hint that is no valid schedule of the graph.
    """
    began = time.monotonic()
    cp_model = solver.load()
    check_objective(objective)
    solver.check_limits(seconds, workers)
    best = _Best(graph, platform, objective, began, on_solution)
    if graph.num_ops == 0:
        hint = _nothing(graph, platform, objective)
    hint = None if hint is None else best.offer(hint)
    bound = bounds.lower_bound(graph, objective, platform)
    parts = model_parts(graph, platform, objective, solver.most_constraints(seconds))
    if parts is None:
        return _solution(best, bound, exact=True)
    model = build_model(cp_model.CpModel(), graph, platform, parts, bound, best.schedule)
    if hint is not None:
        for variable, value in hint_values(graph, model, hint):
            model.program.add_hint(variable, value)
    proven = solver.minimise(
        model.program,
        seconds=seconds - (time.monotonic() - began),
        seed=seed,
        workers=workers,
        on_found=lambda value: best.offer(_decode(graph, platform, model, value)),
    )
    exact = parts.time is None or parts.time.unit.exact
    return _solution(best, max(bound, _in_bytes_or_us(parts, proven)), exact=exact)


def _nothing(graph: ComputationGraph, platform: Platform, objective: Objective) -> Schedule:
    """The schedule of a graph without ops."""
    return Schedule(
        graph=graph.name,
        objective=objective,
        num_devices=platform.num_devices,
        placement=np.zeros(0, np.int32),
        steps=np.zeros(0, np.int64),
    )


class _Best:
    """The best schedule within the capacity so far, by its exact cost, and how it came about."""

    def __init__(self, graph, platform, objective, began: float, on_solution: OnSolution):
        self.graph, self.platform, self.objective = graph, platform, objective
        self.began, self.on_solution = began, on_solution
        self.schedule: Schedule | None = None
        self.history: list[tuple[float, float]] = []

    @property
    def cost(self) -> float:
        return math.inf if self.schedule is None else self.schedule.cost

    def offer(self, schedule: Schedule) -> Schedule:
        """The schedule with its costs, which is kept if it fits and is better."""
        unlimited = Platform(
            self.platform.num_devices,
            latency=self.platform.latency,
            per_byte=self.platform.per_byte,
        )
        cost = checker.evaluate(self.graph, schedule, unlimited)
        costed = schedule.replace(
            objective=self.objective,
            peak_memory=tuple(cost.peak_memory.tolist()),
            makespan=cost.makespan,
            start=cost.start if self.objective == "makespan" else None,
        )
        fits = np.all(cost.peak_memory <= self.platform.capacities())
        if fits and costed.cost < self.cost:
            spent = time.monotonic() - self.began
            self.schedule = costed
            self.history.append((spent, costed.cost))
            self.on_solution(spent, costed.cost)
        return costed


def _solution(best: _Best, bound: float, *, exact: bool) -> Solution:
    """What is known in the end; a bound is never above a cost that was reached."""
    slack = 0.0 if exact else ROUNDING
    optimal = best.schedule is not None and best.cost <= bound * (1 + slack)
    return Solution(best.schedule, float(min(bound, best.cost)), optimal, tuple(best.history))


def model_parts(
    graph: ComputationGraph, platform: Platform, objective: Objective, most: float
) -> Parts | None:
    """The parts of a model of at most ``most`` constraints, None if it would be too large."""
    if not 0 < graph.num_ops <= MAX_OPS:
        return None
    num_devices, timed = platform.num_devices, objective == "makespan"
    limited = bool(np.any(np.isfinite(platform.capacities())))
    space = memory.memory_parts(graph, num_devices) if limited or not timed else None
    times = makespan.time_parts(graph, platform) if timed else None
    both = space is not None and times is not None
    pairs = makespan.unrelated_pairs(graph) if both else np.zeros((0, 2), int)
    parts = Parts(space, times, pairs)
    too_long = timed and times is None
    overflows = space is not None and not memory.fits_int64(space, num_devices)
    if too_long or overflows or _num_constraints(parts, graph.num_ops, num_devices) > most:
        return None
    return parts


def _num_constraints(parts: Parts, num_ops: int, num_devices: int) -> int:
    """About how many constraints a model has."""
    uses = sum(7 + 4 * len(one.readers) for one in parts.memory.residents) if parts.memory else 0
    times = num_ops + len(parts.time.pairs) if parts.time else 0
    return num_ops + num_devices * (num_ops + uses + times + 2 * len(parts.pairs))


def build_model(
    program,
    graph: ComputationGraph,
    platform: Platform,
    parts: Parts,
    bound: float,
    known: Schedule | None,
) -> Model:
    """The model of schedules that cost no less than the bound and no more than a known one."""
    capacities = platform.capacities()
    placement = memory.add_placement(program, graph.num_ops, platform.num_devices)
    ranked = _ranked(graph, parts) if np.all(capacities == capacities[0]) else None
    if ranked is not None:
        memory.break_symmetry(program, placement, ranked)
    cost = program.new_int_var(*_cost_range(parts, bound, known), "")
    program.minimize(cost)
    space, starts, orders, peaks = None, None, [], []
    if parts.memory:
        room = _room(parts.memory, capacities)
        limits, together = room, sum(room)
        if not parts.time:
            peaks = _peaks(program, room, cost) if np.any(np.isfinite(capacities)) else []
            limits, together = peaks or [cost] * len(room), cost * len(room)
        space = memory.add_memory(program, graph, parts.memory, placement, limits, together)
    if parts.time:
        starts = makespan.add_time(program, parts.time, placement, cost)
        if space:
            orders = makespan.add_common_order(
                program, parts.time, placement, space.position, starts, parts.pairs
            )
    return Model(program, parts, ranked, placement, cost, peaks, space, starts, orders)


def _ranked(graph: ComputationGraph, parts: Parts) -> np.ndarray:
    """int[O]: the ops that matter most first."""
    if parts.time:
        return np.argsort(-graph.duration, kind="stable")
    touched = graph.inputs.sums(graph.size) + graph.outputs.sums(graph.size) + graph.workspace
    return np.argsort(-touched, kind="stable")


def _cost_range(parts: Parts, bound: float, known: Schedule | None) -> tuple[int, int]:
    """The least and largest cost, in units of the model."""
    if parts.time:
        return 0, _end_in_units(parts.time, known) if known else parts.time.horizon
    assert parts.memory
    least = -(-int(bound) // parts.memory.unit)
    most = int(known.cost) // parts.memory.unit if known else memory.total(parts.memory)
    return least, max(least, most)


def _end_in_units(parts: makespan.TimeParts, schedule: Schedule) -> int:
    order, placement = schedule.ops_in_order().tolist(), schedule.placement.tolist()
    starts = makespan.earliest_starts(parts, order, placement)
    return max(start + length for start, length in zip(starts, parts.duration, strict=True))


def _room(parts: memory.MemoryParts, capacities: np.ndarray) -> list[int]:
    """Units that each device has, or could use at most."""
    most = memory.total(parts)
    return [most if np.isinf(c) else min(most, int(c) // parts.unit) for c in capacities]


def _peaks(program, room: list[int], cost) -> list[Any]:
    """The variables of the devices' peaks, none above its room or the cost."""
    peaks = [program.new_int_var(0, amount, "") for amount in room]
    for peak in peaks:
        program.add(peak <= cost)
    return peaks


def _in_bytes_or_us(parts: Parts, units: float) -> float:
    if parts.memory and not parts.time:
        return float(units * parts.memory.unit)
    assert parts.time
    return parts.time.unit.bound(units, len(parts.time.duration))


def _decode(
    graph: ComputationGraph, platform: Platform, model: Model, value: Callable[[Any], int]
) -> Schedule:
    """The schedule of a solution."""
    num_devices, parts = platform.num_devices, model.parts
    placement = np.array([[value(x) for x in row] for row in model.placement]).argmax(axis=1)
    position, arrivals = np.zeros(graph.num_ops, np.int64), {}
    if parts.memory and model.memory:
        position = np.array([value(x) for x in model.memory.position])
        arrivals = {
            _transfer(graph, num_devices, parts.memory.residents[index].tensor, device): value(x)
            for (index, device), x in model.memory.arrival.items()
        }
    order = np.lexsort([graph.position, *_times(model, value), position])
    if model.memory is None:
        position = np.argsort(order)
    return Schedule(
        graph=graph.name,
        objective="makespan" if parts.time else "peak_memory",
        num_devices=num_devices,
        placement=placement.astype(np.int32),
        steps=_steps(graph, num_devices, placement, order.tolist(), position.tolist(), arrivals),
    )


def _times(model: Model, value: Callable[[Any], int]) -> list[np.ndarray]:
    """int[O] ends and int[O] starts of ops, or nothing.

    By starts, then ends, an op of no duration comes before the one that starts when it ends.
    """
    if not (model.parts.time and model.starts):
        return []
    starts = np.array([value(start) for start in model.starts])
    return [starts + np.array(model.parts.time.duration), starts]


def _transfer(graph: ComputationGraph, num_devices: int, tensor: int, device: int) -> int:
    return graph.num_ops + tensor * num_devices + device


def _steps(
    graph: ComputationGraph,
    num_devices: int,
    placement: np.ndarray,
    order: Sequence[int],
    position: Sequence[int],
    arrivals: dict[int, int],
) -> np.ndarray:
    """int64[S]: steps by position.

    Transfers whose position isn't known run right before their first reader. Those that share one
    with their tensor's producer run after the ops of this position, the others before.
    """
    crossing = graph.edges[placement[graph.edges[:, 0]] != placement[graph.edges[:, 2]]]
    first: dict[int, int] = {}
    for _, tensor, reader in crossing.tolist():
        step = _transfer(graph, num_devices, tensor, int(placement[reader]))
        first[step] = min(position[reader], first.get(step, position[reader]))
    moments = [(position[op], 1, rank, op) for rank, op in enumerate(order)]
    for step, reader_runs in first.items():
        runs = arrivals.get(step, reader_runs)
        made = position[graph.producer[(step - graph.num_ops) // num_devices]]
        moments.append((runs, 0 if made < runs else 2, 0, step))
    return np.array([step for *_, step in sorted(moments)], np.int64)


def hint_values(graph: ComputationGraph, model: Model, hint: Schedule) -> Iterator[tuple[Any, int]]:
    """(variable, value) of all variables in the solution that is a schedule."""
    parts, num_devices = model.parts, hint.num_devices
    number = np.arange(num_devices)
    if model.ranked is not None:
        number = memory.renumbered(hint.placement, model.ranked, num_devices)
    placement, order = number[hint.placement].tolist(), hint.ops_in_order().tolist()
    for row, device in zip(model.placement, placement, strict=True):
        own = {1: [], 2: row[:1]}.get(num_devices, row)
        yield from ((literal, int(device == index)) for index, literal in enumerate(own))
    if parts.memory and model.memory:
        yield from memory.hint_values(graph, parts.memory, model.memory, hint, number)
    if parts.time and model.starts:
        yield model.cost, _end_in_units(parts.time, hint)
        starts = makespan.earliest_starts(parts.time, order, placement)
        yield from zip(model.starts, starts, strict=True)
        rank = np.argsort(order)
        first = rank[parts.pairs[:, 0]] < rank[parts.pairs[:, 1]]
        yield from zip(model.orders, first.astype(int).tolist(), strict=True)
    elif parts.memory:
        yield model.cost, int(hint.cost) // parts.memory.unit
        for device, peak in enumerate(hint.peak_memory if model.peaks else ()):
            yield model.peaks[number[device]], peak // parts.memory.unit

"""Local search (REGAL, section 4.2): from a random schedule by the best single move at each step.

A solution is a placement and an order of ops; the transfers follow from the two
(``rules.build_schedule``: each runs right before the first op that reads the copy). A move
takes one op to another device, or to another place between its last producer and its first reader.
Costs are exact and incremental, which the paper names as what its implementation lacked
(``kernel``).

Deviations from the paper, which leaves the rest open:
- A step takes the best of a random sample of the neighbourhood, since a whole one has more moves
  than the budget; all are tried where they are no more than the sample. The sample that does best
  is small, so that many steps are made.
- Its "topological sort order" is a random one, so that the order of the program is not given away;
  ``initial_order`` takes another.
- Neighbours that cost the same are moved to (``sideways``): a maximum has many plateaus.
- Starting from a given schedule, random moves from the best so far take the place of restarts
  (iterated local search).
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from regal_jax.environments.placement import columns
from regal_jax.environments.placement.columns import NativeGraph
from regal_jax.environments.placement.kernel import ABOVE
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Objective, Schedule
from regal_jax.errors import OptionError
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph, RaggedRows, ragged_rows
from regal_jax.options import Budget, Result
from regal_jax.search.local_search import kernel
from regal_jax.search.orders import rules
from regal_jax.search.orders.rules import Order

Solution = tuple[np.ndarray, np.ndarray]
"""(order int32[O], placement int32[O])."""

CHUNK = 1000
"""Evaluations between two reports of progress."""


@dataclasses.dataclass(frozen=True)
class LocalSearchConfig:
    """Hyperparameters; the defaults are close to the best of a grid search for either objective
    (25 training graphs of 76 to 2000 ops, 5,000 evaluations, one seed). Which ``shake`` is best was
    within the noise.

    Attributes:
      neighbours: moves evaluated at each step.
      patience: so many steps in a row without improvement end a descent.
      sideways: whether a step goes to a neighbour that costs the same.
      shake: random moves that begin a new descent from the best so far.
      initial_order: the topological sort that a descent begins with.

    Raises:
      OptionError: for a count below 1.
    """

    neighbours: int = 3
    patience: int = 300
    sideways: bool = True
    shake: int = 2
    initial_order: Order = rules.random_order

    def __post_init__(self):
        for name in ("neighbours", "patience", "shake"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} must be at least 1, got {getattr(self, name)}")


def search(
    problem: PlacementProblem,
    budget: Budget,
    *,
    start: Solution | None = None,
    config: LocalSearchConfig | None = None,
) -> Result:
    """The best of exactly the budget's evaluations; fewer if time is up, or of a single solution.

    A starting point counts as an evaluation, too, and so does a candidate whose makespan is given
    up for being above the incumbent's. History is told at each improvement, and at the end.

    Args:
      problem: what to minimise.
      budget: its deadline is looked at every CHUNK evaluations.
      start: (order, placement) to improve on, in place of random ones. Its transfers are timed
        anew, so that it can differ from the schedule it is taken from: keep the better of the two.
      config: hyperparameters.

    Raises:
      OptionError: for a budget below 1, or a start that isn't a valid order and placement.
    """
    budget.check()
    graph, platform = problem.graph, problem.platform
    if start is not None:
        _check_start(graph, platform.num_devices, start)
    config = config or LocalSearchConfig()
    tuning = (config.neighbours, config.patience, config.sideways)
    most = budget.evaluations if has_neighbours(graph, platform.num_devices) else 1
    rng = np.random.default_rng(budget.seed)
    searcher = prepare(graph, platform, problem.objective, rng)
    tally, best = searcher.tally, searcher.best
    history: list[tuple[int, float]] = []
    while (spent := int(tally.spent[0])) < most:
        if spent == 0 or tally.failures[0] >= config.patience:
            _begin(searcher, graph, config, start, rng)
        kernel.descend(*searcher, tuning, most, min(most, spent + CHUNK))
        history += _new_entries(best, tally)
        budget.on_progress(int(tally.spent[0]), float(best.cost[0]))
        if budget.out_of_time:
            break
    cost, spent = float(best.cost[0]), int(tally.spent[0])
    if history[-1][0] < spent:
        history.append((spent, cost))
    return Result(_schedule(problem, best), spent, tuple(history))


def improve(problem: PlacementProblem, schedule: Schedule, moves: int, seed: int) -> Schedule:
    """The better of a schedule that has the problem's costs and of what so many moves find."""
    if moves < 1 or problem.graph.num_ops == 0:
        return schedule
    start = schedule.ops_in_order().astype(np.int32), schedule.placement.astype(np.int32)
    found = search(problem, Budget(moves, seed), start=start).schedule
    return min(schedule, found, key=lambda one: (not problem.fits(one), one.cost))


def _schedule(problem: PlacementProblem, best: kernel.Best) -> Schedule:
    """The best solution with its transfers and costs."""
    schedule = rules.build_schedule(
        problem.graph,
        best.order,
        best.place,
        objective=problem.objective,
        num_devices=problem.num_devices,
    )
    return problem.costed(schedule)


class Searcher(NamedTuple):
    """What a search works on (``kernel``)."""

    instance: kernel.Instance
    state: kernel.State
    scratch: kernel.Scratch
    best: kernel.Best
    tally: kernel.Tally


def _begin(
    searcher: Searcher,
    graph: ComputationGraph,
    config: LocalSearchConfig,
    start: Solution | None,
    rng: np.random.Generator,
) -> None:
    """A new starting point, at one evaluation.

    Without ``start`` a random one. With it, the first time it is ``start``; later, random moves
    from where the last descent ended, if that is as good as the best so far, else from the best.
    """
    instance, state, scratch, best, tally = searcher
    if start is None:
        order = config.initial_order(graph, int(rng.integers(2**31)))
        start = order, rng.integers(len(instance.capacities), size=graph.num_ops)
        put(searcher, start)
    elif tally.spent[0] == 0:
        put(searcher, start)
    else:
        if state.cost[0] > best.cost[0]:
            put(searcher, (best.order, best.place))
        kernel.shake(instance, state, scratch, tally, config.shake)
    tally.spent[0] += 1
    tally.failures[0] = 0
    kernel.record(state, best, tally)


def put(searcher: Searcher, solution: Solution) -> None:
    """Goes to a solution, and costs it."""
    searcher.state.order[:], searcher.state.place[:] = solution
    kernel.build(searcher.instance, searcher.state, searcher.scratch)


def _new_entries(best: kernel.Best, tally: kernel.Tally) -> list[tuple[int, float]]:
    """The improvements since the last call."""
    count, tally.entries[0] = int(tally.entries[0]), 0
    return list(zip(best.spent[:count].tolist(), best.costs[:count].tolist(), strict=True))


def _check_start(graph: ComputationGraph, num_devices: int, start: Solution) -> None:
    order, placement = (np.asarray(part) for part in start)
    precedence.check_order(graph, order, "start")
    if len(placement) != graph.num_ops or np.any((placement < 0) | (placement >= num_devices)):
        raise OptionError(f"start: the placement must be one of {num_devices} devices for each op")


def has_neighbours(graph: ComputationGraph, num_devices: int) -> bool:
    """Whether there is more than one solution: devices to choose, or two neighbours in an order
    that do not depend on each other."""
    if num_devices > 1:
        return graph.num_ops > 0
    position = graph.position
    follows = position[graph.edges[:, 2]] - position[graph.edges[:, 0]] == 1
    return len(np.unique(graph.edges[follows, 0])) < graph.num_ops - 1


def prepare(
    graph: ComputationGraph, platform: Platform, objective: Objective, rng: np.random.Generator
) -> Searcher:
    """The memory of a search, without a solution yet (``put``)."""
    instance = _instance(graph, platform, objective)
    return Searcher(
        instance,
        _empty_state(instance),
        _scratch(instance),
        kernel.Best(
            order=np.zeros(graph.num_ops, np.int32),
            place=np.zeros(graph.num_ops, np.int32),
            cost=np.full(1, np.inf),
            spent=np.zeros(CHUNK + 2, np.int64),
            costs=np.zeros(CHUNK + 2),
        ),
        kernel.Tally(
            spent=np.zeros(1, np.int64),
            failures=np.zeros(1, np.int64),
            entries=np.zeros(1, np.int64),
            random=rng.integers(2**64, size=1, dtype=np.uint64),
        ),
    )


def _instance(graph: ComputationGraph, platform: Platform, objective: Objective) -> kernel.Instance:
    native = columns.native_graph(graph)
    before, after, delays = _dependencies(graph, platform)
    touched = _touched(native, graph.num_ops)
    return kernel.Instance(
        before_offsets=before.offsets,
        before_ops=before.values,
        before_delay=delays[0],
        after_offsets=after.offsets,
        after_ops=after.values,
        after_delay=delays[1],
        touched_offsets=touched.offsets,
        touched=touched.values,
        reader_offsets=native.consumer_offsets,
        readers=native.consumer_ops,
        producer=native.producer,
        size=native.size,
        persistent=native.persistent != 0,
        private=native.private_bytes,
        workspace=graph.workspace,
        duration=graph.duration,
        capacities=platform.capacities(),
        ceiling=_ceiling(native, platform, objective),
        with_memory=objective == "peak_memory" or platform.memory_capacity is not None,
        with_makespan=objective == "makespan",
    )


def _dependencies(graph: ComputationGraph, platform: Platform):
    """Rows of the ops each op reads from, and that read from it, and both rows' delays [us]: the
    longest transfer of a tensor between the two."""
    producer, tensor, reader = graph.edges.T
    delay = platform.latency + graph.size[tensor] * platform.per_byte
    ranked = np.lexsort((-delay, producer, reader))
    producer, reader, delay = producer[ranked], reader[ranked], delay[ranked]
    longest = np.ones(len(ranked), bool)
    longest[1:] = (producer[1:] != producer[:-1]) | (reader[1:] != reader[:-1])
    producer, reader, delay = producer[longest], reader[longest], delay[longest]
    before = ragged_rows(reader, producer, graph.num_ops)
    after = ragged_rows(producer, reader, graph.num_ops)
    return before, after, (delay, delay[np.argsort(producer, kind="stable")])


def _touched(native: NativeGraph, num_ops: int) -> RaggedRows:
    """Rows of the tensors that each op reads or makes, but for those without a size."""
    produced = np.flatnonzero(native.producer >= 0)
    reads = np.repeat(np.arange(len(native.size)), np.diff(native.consumer_offsets))
    tensors = np.concatenate([reads, produced])
    ops = np.concatenate([native.consumer_ops, native.producer[produced]])
    real = native.size[tensors] > 0
    return ragged_rows(ops[real], tensors[real], num_ops)


def _ceiling(native: NativeGraph, platform: Platform, objective: Objective) -> float:
    """As ``placement.kernel.penalised``, added up in the same order."""
    if objective == "peak_memory":
        return float(platform.capacities().max()) * ABOVE
    produced = native.producer >= 0
    transfer = platform.latency + native.size[produced] * platform.per_byte
    crossings = np.diff(native.consumer_offsets)[produced] * transfer
    total = np.cumsum(np.concatenate([[0.0], native.duration, crossings]))[-1]
    return float(total) * ABOVE


def _empty_state(instance: kernel.Instance) -> kernel.State:
    num_ops, num_devices = len(instance.duration), len(instance.capacities)
    leaves = 1 << (2 * num_ops + 2).bit_length()
    with_memory, with_makespan = instance.with_memory, instance.with_makespan
    readers = (len(instance.size) * with_memory, num_devices)
    timed = num_ops * with_makespan
    return kernel.State(
        order=np.zeros(num_ops, np.int32),
        position=np.zeros(num_ops, np.int32),
        place=np.zeros(num_ops, np.int32),
        first=np.zeros(readers, np.int32),
        last=np.zeros(readers, np.int32),
        tree=np.zeros((num_devices, 2 * leaves * with_memory), np.int64),
        finish=np.zeros(timed),
        tail=np.zeros(timed),
        free=np.zeros((timed // kernel.STRIDE + 1, num_devices)),
        until=np.zeros(timed + 1),
        since=np.zeros(timed + 1),
        cost=np.zeros(1),
    )


def _scratch(instance: kernel.Instance) -> kernel.Scratch:
    num_ops, num_devices = len(instance.duration), len(instance.capacities)
    most = 4 * int(np.diff(instance.touched_offsets).max(initial=0)) + 5
    return kernel.Scratch(
        steps=np.zeros(num_devices, np.int64),
        at=np.zeros((num_devices, most), np.int64),
        by=np.zeros((num_devices, most), np.int64),
        born=np.zeros(num_devices, np.int64),
        died=np.zeros(num_devices, np.int64),
        spans=np.zeros((4, num_devices), np.int64),
        finish=np.zeros(num_ops),
        stamp=np.zeros(num_ops, np.int64),
        dirty=np.zeros(num_ops, np.int64),
        clock=np.zeros(1, np.int64),
        free=np.zeros(num_devices),
        old_free=np.zeros(num_devices),
        next=np.zeros(num_devices, np.int32),
    )

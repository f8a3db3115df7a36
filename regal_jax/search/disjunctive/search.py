"""Tabu search between elite schedules, on machines that run one op at a time (ours).

The compiled loop is ``kernel``. A few good schedules are kept; a new one begins between two of
them, where the ops' places in both orders are averaged (what both have in the same order stays so),
is improved by tabu search, and takes the place of the worst, as in Peng, Lue and Cheng, "A tabu
search/path relinking algorithm to solve the job shop scheduling problem", Computers and Operations
Research 53, 2015. Deviations from it: the way between two schedules is one step of averages, not of
swaps; precedence may be any acyclic graph, not jobs alone; the first schedules are given.
"""

from typing import NamedTuple

import numpy as np

from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph, ragged_rows
from regal_jax.options import Budget, Result
from regal_jax.search.disjunctive import kernel

KEPT = 8
"""Schedules that are kept."""
PATIENCE, LEAST_PATIENCE, RUNS = 5000, 1000, 20
"""Moves without a shorter schedule that end a tabu search; fewer where there would be less than so
many searches, but no fewer than the second. On fresh job shops (6 sizes, 600,000 moves) 2,000 to
30,000, and 4 to 16 schedules, differ by less than 0.5 %; Peng, Lue and Cheng have 12,500 and 30."""
TENURE = 10
"""Moves that one is forbidden for, and as many more as a machine has ops for each machine."""
CHUNK = 1_000_000
"""Ops, of as many moves as have so many, between two looks at the clock: some tens of ms."""
MOST_PAIRS = 2**24
"""Ops times the ops of the largest machine: it is kept until when each may not be before each."""
BETWEEN = (0.3, 0.7)
"""Where a new schedule begins on the way from one to another."""


class Elite(NamedTuple):
    """A schedule: its makespan, us, and when ops start, float64[O]."""

    makespan: float
    start: np.ndarray


def machines(graph: ComputationGraph) -> np.ndarray | None:
    """int32[O]: the machine of each op, if all run one op at a time; -1 for ops that compete for
    nothing. None for a graph with other machines, or one that is too large."""
    assert graph.capacity is not None
    machine = np.where(graph.demand > 0, graph.machine_type, -1).astype(np.int32)
    for kind, capacity in enumerate(graph.capacity.tolist()):
        demand = np.sort(graph.demand[machine == kind])
        if demand.sum() <= capacity:
            machine[machine == kind] = -1
        elif demand[:2].sum() <= capacity:
            return None
    return machine if graph.num_ops * _width(machine) <= MOST_PAIRS else None


def improve(
    problem: MachineProblem, machine: np.ndarray, budget: Budget, starts: np.ndarray
) -> Result:
    """The best schedule within a budget, where a move is an evaluation.

    Args:
      problem, machine: one with ``machines``, and these.
      budget: the search ends earlier at the lower bound, and where no neighbours on a longest path
        could change places: it is optimal.
      starts: float64[W, O], us: valid schedules, at no cost. The result is never longer than any.

    Returns the best, and after each tabu search what was spent and the shortest makespan.
    """
    rng = np.random.default_rng(budget.seed)
    searcher = _Searcher(problem.graph, machine, problem.lower_bound, rng)
    patience = min(PATIENCE, max(LEAST_PATIENCE, budget.evaluations // RUNS))
    first = [searcher.begin(start) for start in starts]
    different = np.unique([one.makespan for one in first], return_index=True)[1]
    waiting = [first[index] for index in different[:KEPT]]
    pool, history, shortest = list[Elite](), list[tuple[int, float]](), waiting[0].makespan
    while not searcher.is_done(shortest, budget):
        spent, begin = searcher.spent, waiting.pop(0).start if waiting else _between(rng, pool)
        found = searcher.search(begin, budget, patience)
        pool = _best(pool, found)
        shortest = min(shortest, found.makespan)
        if searcher.spent > spent:
            history.append((searcher.spent, shortest))
            budget.on_progress(*history[-1])
    best = min([*pool, *waiting], key=lambda one: one.makespan)
    return Result(problem.scheduled(best.start), searcher.spent, tuple(history) or ((0, shortest),))


class _Searcher:
    """Memory of the compiled loop."""

    def __init__(
        self,
        graph: ComputationGraph,
        machine: np.ndarray,
        bound: float,
        rng: np.random.Generator,
    ):
        num_ops, width = graph.num_ops, _width(machine)
        before, after = (_rows(graph, pair) for pair in ((1, 0), (0, 1)))
        self._graph, self._machine, self._bound = graph, machine, bound
        self._levels = precedence.levels(graph)
        self._chunk = max(1, CHUNK // max(num_ops, 1))
        self._instance = kernel.Instance(
            graph.duration, _slots(machine), before.offsets, before.values, *after
        )
        self._state = kernel.State(
            *(np.zeros(num_ops, np.int32) for _ in range(3)),
            *(np.zeros(num_ops) for _ in range(2)),
            np.zeros(1),
        )
        self._best = kernel.Best(np.zeros(num_ops), np.zeros(1))
        self._scratch = kernel.Scratch(
            *(np.zeros(num_ops, np.int32) for _ in range(4)),
            np.zeros(num_ops),
            np.zeros((num_ops, width), np.int64),
        )
        self._tally = kernel.Tally(
            *(np.zeros(1, np.int64) for _ in range(3)), rng.integers(2**64, size=1, dtype=np.uint64)
        )
        count = len(np.unique(machine[machine >= 0]))
        self._tenure = TENURE + width // max(count, 1)

    @property
    def spent(self) -> int:
        """Moves so far."""
        return int(self._tally.spent[0])

    def is_done(self, shortest: float, budget: Budget) -> bool:
        """Whether no more moves may be made, or none is of use: the shortest schedule is at the
        bound, or a longest path can't be changed."""
        is_optimal = shortest <= self._bound or self._tally.is_stuck[0]
        return bool(is_optimal or self.spent >= budget.evaluations or budget.out_of_time)

    def begin(self, start: np.ndarray) -> Elite:
        """Goes to the schedule with the machines' ops in the order of their starts, as early as
        they can."""
        order = np.lexsort((self._levels, start + self._graph.duration, start))
        order = order[np.argsort(self._machine[order], kind="stable")]
        follows = self._machine[order[1:]] == self._machine[order[:-1]]
        follows &= self._machine[order[1:]] >= 0
        self._state.previous[:] = self._state.following[:] = kernel.NONE
        self._state.previous[order[1:][follows]] = order[:-1][follows]
        self._state.following[order[:-1][follows]] = order[1:][follows]
        kernel.timed(self._instance, self._state, self._scratch)  # starts contradict no precedence
        return Elite(float(self._state.makespan[0]), self._state.head.copy())

    def search(self, start: np.ndarray, budget: Budget, patience: int) -> Elite:
        """The best of one tabu search, from a schedule on."""
        self.begin(start)
        self._scratch.forbidden[:] = 0
        self._tally.failures[0] = 0
        kernel.keep(self._state, self._best)
        while not (
            self._tally.failures[0] >= patience
            or self.is_done(float(self._best.makespan[0]), budget)
        ):
            most = min(self.spent + self._chunk, budget.evaluations)
            kernel.descend(
                *(self._instance, self._state, self._scratch, self._best, self._tally),
                *(self._tenure, patience, most),
            )
        return Elite(float(self._best.makespan[0]), self._best.head.copy())


def _between(rng: np.random.Generator, pool: list[Elite]) -> np.ndarray:
    """float64[O]: an order on the way from one schedule to another, as starts."""
    one, other = (pool[i].start for i in rng.choice(len(pool), 2, replace=len(pool) < 2))
    share = rng.uniform(*BETWEEN)
    return (1.0 - share) * _ranks(one) + share * _ranks(other)


def _ranks(start: np.ndarray) -> np.ndarray:
    return np.unique(start, return_inverse=True)[1].reshape(-1).astype(float)


def _best(pool: list[Elite], found: Elite) -> list[Elite]:
    """The KEPT shortest of different schedules."""
    if any(np.array_equal(found.start, one.start) for one in pool):
        return pool
    return sorted([*pool, found], key=lambda one: one.makespan)[:KEPT]


def _rows(graph: ComputationGraph, pair: tuple[int, int]):
    """Of each op those it waits for, or the reverse."""
    return ragged_rows(*graph.op_pairs.T[list(pair)], graph.num_ops)


def _slots(machine: np.ndarray) -> np.ndarray:
    """int32[O]: 0, 1, ... of each machine's ops."""
    order = np.argsort(machine, kind="stable")
    first = np.searchsorted(machine[order], machine[order])
    slot = np.empty(len(machine), np.int32)
    slot[order] = np.arange(len(machine)) - first
    return slot


def _width(machine: np.ndarray) -> int:
    """Ops of the largest machine."""
    return int(np.bincount(machine[machine >= 0], minlength=1).max())

"""Search among dispatching rules: those of a pool that promise most, then changed copies of the
best ones."""

from collections.abc import Callable, Iterator

import numpy as np

from regal_jax.environments.dispatching import rule
from regal_jax.environments.dispatching.kernel import FEATURES, TIMED, Columns
from regal_jax.environments.dispatching.rule import Tried, tried
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.options import Budget, Result

PICKS = 64
"""Most rules of the pool that are tried."""
GROWTH = 4
"""Rules tried so far, over those that are tried next without a look at what they cost."""
BATCH = 50
"""Changed rules between two looks at the best ones, and at the clock."""
PARENTS = 10
"""Best rules that are changed."""
NOISE = 0.25, 1.0
"""Least and largest standard deviation of changes, log-uniform."""
CHANGED = 0.5
"""Part of the weights that change."""

Promise = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(costs float[M], tried bool[M]) of a pool -> float[M], most for what is to be tried next."""


def in_order(costs: np.ndarray, done: np.ndarray) -> np.ndarray:
    """The promise of rules, whatever the problem: the first ones first."""
    return -np.arange(len(costs), dtype=float)


def search(
    problem: PlacementProblem,
    columns: Columns,
    pool: np.ndarray,
    promise: Promise,
    count: int,
    budget: Budget,
) -> Result:
    """The best schedule of ``count`` rules; fewer are tried if the budget's time runs out.

    Args:
      problem, columns: what to schedule, and what rules read of it.
      pool: float64[M, FEATURES], rules to begin with.
      promise: which of them, and in which order.
      count: rules in all, at least 1.
      budget: its seed, deadline and progress.

    Returns:
      The result; its population are schedules of the PARENTS best rules, best first.
    """
    history, rng = [], np.random.default_rng(budget.seed)
    for spent, best in steps(problem, columns, pool, promise, count, rng):
        history.append((spent, float(best.costs[0])))
        budget.on_progress(*history[-1])
        if budget.out_of_time:
            break
    return Result(problem.decode(best.genes[0]), spent, tuple(history), population=best.genes)


def steps(
    problem: PlacementProblem,
    columns: Columns,
    pool: np.ndarray,
    promise: Promise,
    count: int,
    rng: np.random.Generator,
) -> Iterator[tuple[int, Tried]]:
    """(rules so far, the PARENTS best ones) of ``search``, batch by batch."""
    for spent, best in _picks(problem, columns, pool, promise, min(count, PICKS, len(pool))):
        yield spent, best
    while spent < count:
        size = min(BATCH, count - spent)
        new = changed(rng, best.rules, size, timed=problem.objective == "makespan")
        best, spent = best.and_best(tried(problem, columns, new), PARENTS), spent + size
        yield spent, best


def _picks(
    problem: PlacementProblem, columns: Columns, pool: np.ndarray, promise: Promise, count: int
) -> Iterator[tuple[int, Tried]]:
    """The same, of the pool: one rule, and then ever larger batches. Before it is
    ``rule.ONE_DEVICE`` where each transfer takes longer than all the work, one op after the other,
    and next to it where its schedule does."""
    costs, done = np.zeros(len(pool)), np.zeros(len(pool), bool)
    spent, best = 0, None
    work = problem.graph.duration.sum() if problem.objective == "makespan" else np.inf
    dear = np.inf > columns.delay.min(initial=np.inf) >= work
    while spent < count:
        alone = dear if best is None else not dear and spent == 1 and best.costs[0] > work
        if alone:
            new = tried(problem, columns, rule.ONE_DEVICE[None])
        else:
            left = np.where(done, -np.inf, promise(costs, done))
            which = np.argsort(-left, kind="stable")[: batch_size(spent, count)]
            new = tried(problem, columns, pool[which])
            costs[which], done[which] = new.costs, True
        spent += len(new.costs)
        best = new if best is None else best.and_best(new, PARENTS)
        yield spent, best


def batch_size(spent: int, count: int) -> int:
    """How many rules of a pool are tried next, after ``spent`` of ``count``."""
    return min(max(1, spent // GROWTH), count - spent)


def changed(
    rng: np.random.Generator, parents: np.ndarray, count: int, *, timed: bool
) -> np.ndarray:
    """float64[count, FEATURES]: changed copies of parents drawn evenly; without times, if they
    don't count."""
    least, most = np.log(NOISE)
    scale = np.exp(rng.uniform(least, most, (count, 1)))
    change = rng.normal(size=(count, FEATURES)) * scale
    change *= rng.random(change.shape) < CHANGED
    if not timed:
        change[:, TIMED:] = 0.0
    return np.clip(parents[rng.integers(len(parents), size=count)] + change, -rule.MOST, rule.MOST)

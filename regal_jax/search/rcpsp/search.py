"""A search for short schedules of machine problems: crossover of orders, justification (ours).

It begins with the schedules of priority rules and justifies every schedule it makes, as the hybrid
genetic algorithm of Valls, Ballestin, Quintanilla (European Journal of Operational Research 185,
2008) does for projects.
"""

import numpy as np

from regal_jax.environments.rcpsp.problem import MachineProblem, priorities
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.options import Budget, Result
from regal_jax.search.rcpsp import rules
from regal_jax.search.rcpsp.justification import BothWays, both_ways, justify, makespans

KEPT = 30
"""Schedules that the improvement search keeps."""
_BATCH = 16
"""Schedules it makes from them in a round, at three evaluations each."""
_FRACTION = (2.0, 0.3)
"""Ops that move in the order of a new schedule: from so many of them to this share."""
_DISTANCE = (0.03, 0.3)
"""How far they move (standard deviation), in parts of the order.

Both are drawn log-uniformly. These numbers were the best of a few on job shops and TPC-H.
"""


def improve(
    graph: ComputationGraph, budget: Budget, *, warm_start: np.ndarray | None = None
) -> Result:
    """Short schedules from priority rules, crossover and double justification.

    The rules' schedules (parallel and serial generation, ties first and last) are justified; the
    KEPT best ones of different makespans are the parents. A child takes the ops that come first in
    one parent, then the others as in a second one (one-point crossover of orders), and some of the
    ops move at random. It is generated, justified, and may take the place of the worst.

    Args:
      graph: with machine types, demands and capacities.
      budget: schedules to generate at most; a justified one counts three. The search ends earlier
        at the lower bound; the deadline is looked at every round.
      warm_start: float64[W, O], us: valid schedules, beside those of the rules, at no cost. The
        result is never longer than any of them.

    Raises:
      OptionError: without any evaluation. GraphError: for a graph without a schedule.
    """
    budget.check()
    both, rng = both_ways(graph), np.random.default_rng(budget.seed)
    pool, spent = _first_schedules(both, warm_start, budget.evaluations)
    history = []
    while True:
        best = float(makespans(both, pool)[0])
        history.append((spent, best))
        budget.on_progress(spent, best)
        count = min(_BATCH, (budget.evaluations - spent) // 3)
        if count == 0 or best <= both.forwards.lower_bound or budget.out_of_time:
            break
        children = justify(both, both.forwards.starts(_children(rng, pool, count)))
        pool = _fittest(both, np.vstack([children, pool]))
        spent += 3 * count
    genes = priorities(pool[:1])
    start = both.forwards.starts(genes)
    history[-1] = (spent, float(makespans(both, start)[0]))
    return Result(both.forwards.scheduled(start[0]), spent, tuple(history))


def _first_schedules(both: BothWays, warm_start, evaluations: int) -> tuple[np.ndarray, int]:
    """(starts float64[K, O] of the best schedules, shortest first, evaluations spent)."""
    graph = both.forwards.graph
    ranked = [rule(graph) for rule in rules.RULES.values()]
    genes = np.stack([rules.genes(r) for r in [*ranked, *map(rules.ties_last, ranked)]])
    start = MachineProblem(graph).starts(genes[:evaluations])
    start = np.vstack([start, both.forwards.starts(genes[: evaluations - len(start)])])
    spent = len(start)
    if warm_start is not None:
        start = np.vstack([warm_start, start])
    start = _fittest(both, start)
    first = start[: (evaluations - spent) // 2]
    return _fittest(both, np.vstack([justify(both, first), start])), spent + 2 * len(first)


def _fittest(both: BothWays, start: np.ndarray) -> np.ndarray:
    """The KEPT shortest schedules, shortest first: the first one of each makespan."""
    return start[np.unique(makespans(both, start), return_index=True)[1][:KEPT]]


def _children(rng: np.random.Generator, pool: np.ndarray, count: int) -> np.ndarray:
    """float32[count, O]: genes of serial generation, by crossover and random moves."""
    num_ops, shape = pool.shape[1], (count, pool.shape[1])
    place = np.argsort(np.argsort(pool, axis=1, kind="stable"), axis=1) / num_ops
    one, other = place[rng.integers(0, len(pool), (2, count))]
    order = np.where(one < rng.random((count, 1)), one, 1.0 + other)
    place = np.argsort(np.argsort(order, axis=1, kind="stable"), axis=1) / num_ops
    few, share = _FRACTION
    moves = rng.random(shape) < _log_uniform(rng, min(few / num_ops, share), share, count)
    distance = _log_uniform(rng, *_DISTANCE, count) * rng.standard_normal(shape)
    return priorities(place + moves * distance)


def _log_uniform(rng: np.random.Generator, low: float, high: float, count: int) -> np.ndarray:
    return np.exp(rng.uniform(np.log(low), np.log(high), (count, 1)))

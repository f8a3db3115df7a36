"""Islands: local searches from one schedule at once, a core each, whose best goes on (ours)."""

from typing import Any

from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.native import threads
from regal_jax.options import Budget, Result
from regal_jax.search.local_search import search
from regal_jax.search.local_search.search import Solution

STRIDE = 104729
"""Between the islands' seeds."""


def best_of_islands(problem: PlacementProblem, budget: Budget, start: Solution) -> Result:
    """The best of as many searches from a solution as there are cores, within one deadline.

    Args:
      problem: what to minimise.
      budget: its evaluations are those of all together; the first one reports progress.
      start: (order, placement) that all begin with.
    """
    count = max(1, min(threads.num_cores(), budget.evaluations))
    spent, best = [0] * count, [float("inf")] * count
    found: list[Any] = [None] * count

    def part(island: int) -> Budget:
        share, rest = divmod(budget.evaluations, count)

        def note(done: int, cost: float) -> None:
            spent[island], best[island] = done, cost
            if island == 0:
                budget.on_progress(sum(spent), min(best))

        evaluations, seed = share + (island < rest), budget.seed + STRIDE * island
        return budget._replace(evaluations=evaluations, seed=seed, on_progress=note)

    def run(first: int, last: int) -> None:
        for island in range(first, last):
            found[island] = search.search(problem, part(island), start=start)

    threads.over_threads(run, count, budget.evaluations * max(problem.graph.num_ops, 1))
    return together(found)


def together(found: list[Result]) -> Result:
    """Searches that ran side by side as one: the best, whose history is by evaluations of all."""
    spent = sum(one.evaluations for one in found)
    points = sorted(
        (min(len(found) * done, spent), cost) for one in found for done, cost in one.history
    )
    history: list[tuple[int, float]] = []
    for done, cost in points:
        if history and cost >= history[-1][1]:
            continue
        if history and history[-1][0] == done:
            history.pop()
        history.append((done, cost))
    if history[-1][0] < spent:
        history.append((spent, history[-1][1]))
    best = min(found, key=lambda one: one.cost)
    return Result(best.schedule, spent, tuple(history))

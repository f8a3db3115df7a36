"""What every scheduling method takes and returns."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import numpy as np

from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.rcpsp.problem import Generation
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import OptionError

History = tuple[tuple[int, float], ...]
OnProgress = Callable[[int, float], None]
"""Called with (evaluations so far, best cost so far)."""


Decoding = Literal["greedy", "sample", "beam", "guided", "brkga"]


class Spent(Protocol):
    """What a search used of a budget, and the best cost it found."""

    @property
    def evaluations(self) -> int: ...

    @property
    def cost(self) -> float: ...


class Budget(NamedTuple):
    """What a method may spend, and its randomness.

    Attributes:
      evaluations: calls of the cost on a chromosome.
      seed: of everything random.
      policy: file of a trained policy, or None for the shipped one.
      deadline: ``time.perf_counter()`` from which on no new work is begun, in seconds. Searches
        look at it every few generations, and return the best so far.
      decoding: how a policy over orders or priorities is decoded; None is its method's own way.
      generation: of schedules on machine types, if one was asked for.
      temperature: how much samples differ, of methods that have one; None is their own.
      on_progress: see OnProgress.
    """

    evaluations: int
    seed: int = 0
    policy: str | Path | None = None
    deadline: float = float("inf")
    decoding: Decoding | None = None
    generation: Generation | None = None
    temperature: float | None = None
    on_progress: OnProgress = lambda evaluations, cost: None

    @property
    def seconds_left(self) -> float:
        return self.deadline - time.perf_counter()

    @property
    def out_of_time(self) -> bool:
        return self.seconds_left <= 0.0

    def after(self, spent: Spent) -> "Budget":
        """What a search leaves of the budget, reporting progress on top of it."""
        return self._replace(
            evaluations=self.evaluations - spent.evaluations,
            on_progress=lambda done, cost: self.on_progress(
                spent.evaluations + done, min(cost, spent.cost)
            ),
        )


class Found(NamedTuple):
    """What a method found.

    Attributes:
      chromosome: float32[genes], the best.
      evaluations: spent.
      history: best cost so far by evaluations; the last entry is of ``chromosome``.
      lower_bound: a bound that the method proved, bytes or us; 0 if it proves none.
    """

    chromosome: np.ndarray
    evaluations: int
    history: History
    lower_bound: float = 0.0

    @property
    def cost(self) -> float:
        return self.history[-1][1]


Method = Callable[[PlacementProblem, Budget], Found]


def best_schedule(
    problem: PlacementProblem, budget: Budget, schedules: Iterable[Schedule]
) -> Found:
    """The best of given schedules, at one evaluation each."""
    chromosomes = np.stack([problem.encode(schedule) for schedule in schedules])
    costs = np.asarray(problem.fitness(chromosomes))
    best = int(costs.argmin())
    found = Found(chromosomes[best], len(costs), ((len(costs), float(costs[best])),))
    budget.on_progress(*found.history[-1])
    return found


def best_of(first: Found, second: Found) -> Found:
    """Two searches one after the other as one: best of both, one history."""
    later = tuple(
        (first.evaluations + spent, min(cost, first.cost)) for spent, cost in second.history
    )
    return Found(
        second.chromosome if second.cost < first.cost else first.chromosome,
        first.evaluations + second.evaluations,
        first.history + later,
        max(first.lower_bound, second.lower_bound),
    )


def exactly_better(problem: PlacementProblem, start: Found, found: Found) -> Found:
    """``found``, unless it is worse by what float32 rounds away: then with ``start``'s schedule."""
    costs = np.asarray(problem.fitness(np.stack([start.chromosome, found.chromosome])))
    return found if costs[1] <= costs[0] else found._replace(chromosome=start.chromosome)


def check_evaluations(evaluations: int) -> None:
    """Raises OptionError for a budget without any evaluation."""
    if evaluations < 1:
        raise OptionError(f"evaluations must be at least 1, got {evaluations}")

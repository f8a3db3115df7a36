"""The driver of every search over chromosomes: jitted, in chunks, aware of its deadline."""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.environments.base import Problem, Spec
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import OptionError
from regal_jax.options import Budget, Result

CHUNK = 20
"""Steps between two looks at the clock, and two reports of progress."""

Cost = Callable[[jax.Array], jax.Array]
"""float32[B, genes] -> float[B], to minimise."""
State = Any


class Algorithm(NamedTuple):
    """A search in steps, for one problem; hashable, so that it can be a static argument. What
    builds one is cached, so that equal searches share a program.

    Attributes:
      init: (key, cost, known float32[W, genes], params) -> state.
      step: (key, index, state, cost, params) -> state: the key is the step's own.
      finish: (key, state, cost, params, remainder) -> state: a last step of only so many
        evaluations; None for a search that leaves them.
      best: state -> (chromosome float32[genes], its cost).
      population: state -> float32[P, genes], all that the state holds.
      initial, newcomers: evaluations of ``init``, and of a step.
    """

    init: Callable[..., State]
    step: Callable[..., State]
    finish: Callable[..., State] | None
    best: Callable[[State], tuple[jax.Array, jax.Array]]
    population: Callable[[State], jax.Array]
    initial: int
    newcomers: int

    def check(self, evaluations: int) -> None:
        """Raises OptionError for a budget below what the search begins with."""
        least = max(self.initial, 1)
        if evaluations < least:
            raise OptionError(f"evaluations must be at least {least}, got {evaluations}")


class _Operands(NamedTuple):
    """What is traced: the padded graph, the algorithm's arrays, known chromosomes."""

    graph: Any
    params: Any
    known: Any


class _Search(NamedTuple):
    """What stays the same all through a search."""

    algorithm: Algorithm
    problem: Problem
    budget: Budget
    operands: _Operands

    @property
    def program(self) -> tuple[Any, ...]:
        """The arguments of all jitted parts."""
        return self.operands, self.problem.spec, self.algorithm


class _Progress(NamedTuple):
    """Where a search is: its state, and (evaluations, best cost so far) points."""

    state: State
    points: tuple[tuple[int, float], ...]


def run(
    key: chex.PRNGKey,
    algorithm: Algorithm,
    problem: Problem,
    budget: Budget,
    *,
    params: Any = None,
    known: np.ndarray | None = None,
) -> Result:
    """A search for exactly the budget's evaluations, or fewer where it runs out of time.

    Args:
      key: random key; step i has the key (key, i), so a run in chunks is the same as one in whole.
      algorithm, problem, budget: what searches what, and for how long.
      params: pytree of arrays for the algorithm's functions.
      known: float32[W, genes], chromosomes to begin with; the result is never worse than these.

    Raises:
      OptionError: if the budget is below what the search begins with.
    """
    algorithm.check(budget.evaluations)
    if known is None:
        known = np.zeros((0, problem.num_genes), np.float32)
    operands = _Operands(problem.operand, params, problem.pad(known))
    search = _Search(algorithm, problem, budget, operands)
    return _result(search, _walked(key, search), known)


def _walked(key: chex.PRNGKey, search: _Search) -> _Progress:
    """The state after all steps, or as many as there is time for."""
    algorithm, budget = search.algorithm, search.budget
    steps, remainder = divmod(budget.evaluations - algorithm.initial, algorithm.newcomers)
    init_key, step_key, last_key = jax.random.split(key, 3)
    at = _after(search, _Progress(None, ()), _init(init_key, *search.program), algorithm.initial)
    done = 0
    while done < steps and not budget.out_of_time:
        last = min(done + CHUNK, steps)
        new = _advance(step_key, at.state, done, last, *search.program)
        spent = algorithm.initial + algorithm.newcomers * np.arange(done + 1, last + 1)
        at = _after(search, at, new, *spent.tolist())
        done = last
    if done == steps and remainder and algorithm.finish is not None:
        new = _finish(last_key, at.state, *search.program, remainder)
        at = _after(search, at, new, budget.evaluations)
    return at


def _after(search: _Search, at: _Progress, new: tuple[State, jax.Array], *spent: int) -> _Progress:
    """Adds points at these evaluations. Inside jit costs may be rounded to float32: those here are
    no less than the exact cost of the best."""
    state, costs = new
    exact = float(np.min(search.problem.fitness(_best(search, state))))
    if at.points:
        exact = min(exact, at.points[-1][1])
    rounded = np.ravel(np.asarray(costs, float))[: len(spent) - 1].tolist()
    points = zip(spent, [*(max(cost, exact) for cost in rounded), exact], strict=True)
    progress = _Progress(state, at.points + tuple(points))
    search.budget.on_progress(*progress.points[-1])
    return progress


def _best(search: _Search, state: State) -> np.ndarray:
    """float32[1, genes]: the best chromosome in the problem's own layout."""
    return search.problem.unpad(np.asarray(search.algorithm.best(state)[0])[None])


def _result(search: _Search, at: _Progress, known: np.ndarray) -> Result:
    """The best of the search and of the known chromosomes, by exact costs."""
    last = np.concatenate([_best(search, at.state), known])
    exact = np.asarray(search.problem.fitness(last), float)
    cost, (*before, (spent, _)) = float(exact.min()), at.points
    history = [(done, max(earlier, cost)) for done, earlier in before if done]
    population = np.asarray(search.algorithm.population(at.state))
    return Result(
        search.problem.decode(last[exact.argmin()]),
        spent,
        (*history, (spent, cost)),
        population=search.problem.unpad(population),
    )


class Trajectory(NamedTuple):
    """A whole search inside jit.

    Attributes:
      state: the last.
      history: float[steps + 1], best cost so far, first of the initial state.
    """

    state: State
    history: jax.Array


def scan(
    key: chex.PRNGKey,
    algorithm: Algorithm,
    cost: Cost,
    evaluations: int,
    *,
    params: Any = None,
    known: Any = None,
) -> Trajectory:
    """What ``run`` does, with the same random numbers, as one traced computation on padded
    chromosomes: for jit and vmap. ``spent_at`` has the evaluations of its history.

    Raises OptionError if the budget is below what the search begins with.
    """
    algorithm.check(evaluations)
    steps, remainder = divmod(evaluations - algorithm.initial, algorithm.newcomers)
    init_key, step_key, last_key = jax.random.split(key, 3)
    state = algorithm.init(init_key, cost, known, params)
    history = jnp.full(steps + 1, algorithm.best(state)[1])
    state, history = _walk(step_key, (state, history), 0, steps, 1, cost, params, algorithm)
    if remainder and algorithm.finish is not None:
        state = algorithm.finish(last_key, state, cost, params, remainder)
        history = jnp.append(history, algorithm.best(state)[1])
    return Trajectory(state, history)


def spent_at(evaluations: int, initial: int, newcomers: int) -> list[int]:
    """Evaluations spent at each entry of the history of a search of so many, to the last one."""
    spent = list(range(initial, evaluations + 1, newcomers))
    return spent if spent[-1] == evaluations else [*spent, evaluations]


def _walk(key, carry, first, last, offset, cost, params, algorithm: Algorithm):
    """(state, costs) after steps ``first`` to ``last`` (not included); costs[i + offset] is the
    best after step i."""

    def step(index, carry):
        state, costs = carry
        step_key = jax.random.fold_in(key, index)
        state = algorithm.step(step_key, index, state, cost, params)
        return state, costs.at[index + offset].set(algorithm.best(state)[1])

    return jax.lax.fori_loop(first, last, step, carry)


@functools.partial(jax.jit, static_argnames=("spec", "algorithm"))
def _init(key, operands: _Operands, spec: Spec, algorithm: Algorithm):
    cost = functools.partial(spec.costs, operands.graph)
    state = algorithm.init(key, cost, operands.known, operands.params)
    return state, algorithm.best(state)[1]


@functools.partial(jax.jit, static_argnames=("spec", "algorithm"))
def _advance(key, state, first, last, operands: _Operands, spec: Spec, algorithm: Algorithm):
    """(state, float[CHUNK] best costs) after steps ``first`` to ``last`` (not included)."""
    cost = functools.partial(spec.costs, operands.graph)
    carry = (state, jnp.zeros(CHUNK))
    return _walk(key, carry, first, last, -first, cost, operands.params, algorithm)


@functools.partial(jax.jit, static_argnames=("spec", "algorithm", "remainder"))
def _finish(key, state, operands: _Operands, spec: Spec, algorithm: Algorithm, remainder: int):
    cost = functools.partial(spec.costs, operands.graph)
    assert algorithm.finish is not None
    state = algorithm.finish(key, state, cost, operands.params, remainder)
    return state, algorithm.best(state)[1]


def best_of_chromosomes(problem: Problem, budget: Budget, chromosomes: np.ndarray) -> Result:
    """The best of chromosomes float32[B, genes], the first on ties, at one evaluation each; as the
    population all of them, by cost."""
    costs = np.asarray(problem.fitness(chromosomes))
    ranking = np.argsort(costs, kind="stable")
    point = (len(costs), float(costs[ranking[0]]))
    budget.on_progress(*point)
    schedule = problem.decode(chromosomes[ranking[0]])
    return Result(schedule, len(costs), (point,), population=chromosomes[ranking])


def best_of_schedules(problem: Any, budget: Budget, schedules: Iterable[Schedule]) -> Result:
    """The same of schedules that are encoded first: one, and as many more as the deadline lets."""
    found = [problem.encode(one) for one in _in_time(schedules, budget)]
    return best_of_chromosomes(problem, budget, np.stack(found))


def _in_time(schedules: Iterable[Schedule], budget: Budget) -> Iterator[Schedule]:
    for schedule in schedules:
        yield schedule
        if budget.out_of_time:
            return

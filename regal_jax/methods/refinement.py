"""Improving a schedule behind ``optimize``: local search from it, or block moves."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.environments.placement import chromosome as placement_chromosome
from regal_jax.environments.placement import cost as placement_cost
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.graphs import batching
from regal_jax.methods.base import Budget, Found, best_of
from regal_jax.search.local_search import block_moves, search
from regal_jax.search.orders import rules


def run_local_search(problem: PlacementProblem, budget: Budget) -> Found:
    """Local search from random solutions (section 4.2), which evaluates moves incrementally."""
    return _descend(problem, budget, None)


def polish(problem: PlacementProblem, budget: Budget, start: Found) -> Found:
    """Spends what is left of the budget on local search from the best schedule so far."""
    left = budget.after(start)
    if left.evaluations < 1 or left.out_of_time:
        return start
    schedule = problem.decode(start.chromosome)
    order = schedule.steps[schedule.steps < problem.graph.num_ops]
    return best_of(start, _descend(problem, left, (order, schedule.placement)))


def _descend(problem: PlacementProblem, budget: Budget, start: search.Solution | None) -> Found:
    result = search.search(
        problem.graph,
        problem.platform,
        problem.objective,
        budget.evaluations,
        seed=budget.seed,
        start=start,
        on_progress=budget.on_progress,
        should_stop=lambda: budget.out_of_time,
    )
    schedule = rules.build_schedule(
        problem.graph,
        result.order,
        result.placement,
        objective=problem.objective,
        num_devices=problem.num_devices,
    )
    return Found(problem.encode(schedule), result.evaluations, result.history)


def climb(problem: PlacementProblem, budget: Budget, start: Found) -> Found:
    """Spends what is left of the budget on block moves from the best schedule so far."""
    rounds = (budget.evaluations - start.evaluations) // _NEIGHBOURS
    if rounds < 1 or problem.graph.num_ops == 0:
        return start
    padded = problem.padded()
    sizes = (problem.graph.num_ops, problem.graph.num_tensors)
    shape = (padded.shape.ops, padded.shape.tensors)
    chromosome = placement_chromosome.pad(
        start.chromosome[None], sizes, shape, problem.num_devices
    )[0]
    genes = placement_chromosome.split(jnp.asarray(chromosome), shape[0], problem.num_devices)
    state = block_moves.ClimbState(genes=genes, cost=jnp.asarray(start.cost, float))
    history, key = jnp.zeros(batching.padded_size(rounds)), jax.random.key(budget.seed)
    done = 0
    while done < rounds and not budget.out_of_time:
        last = min(done + _CHUNK, rounds)
        state, history = _climb_rounds(
            key, state, padded.operand(), done, last, history, sizes[0], padded.cost_model()
        )
        done = last
        budget.on_progress(start.evaluations + done * _NEIGHBOURS, float(state.cost))
    if done == 0:
        return start
    own = placement_chromosome.unpad(
        np.asarray(placement_chromosome.join(state.genes))[None], sizes, shape, problem.num_devices
    )[0]
    spent = start.evaluations + _NEIGHBOURS * np.arange(1, done + 1)
    costs = np.minimum(np.asarray(history, float)[:done], start.cost)
    points = tuple(zip(spent.tolist(), costs.tolist(), strict=True))
    return Found(own, int(spent[-1]), start.history + points, start.lower_bound)


_NEIGHBOURS = 100
_CHUNK = 20
"""Rounds between two reports of progress."""


@functools.partial(jax.jit, static_argnames="model")
def _climb_rounds(key, state, graph, first, last, history, num_ops, model):
    return block_moves.climb(
        key,
        state,
        functools.partial(placement_cost.costs, model, graph),
        first,
        last,
        history,
        num_ops=num_ops,
        neighbours=_NEIGHBOURS,
    )

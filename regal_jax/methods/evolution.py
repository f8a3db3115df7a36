"""Genetic and random searches behind ``optimize``: BRKGA, REGAL, uniform random search."""

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.environments import fitness, random_keys
from regal_jax.environments.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.graphs.features import pinned_op
from regal_jax.methods.base import Budget, Found, best_of, check_evaluations
from regal_jax.policies import beta_mutants
from regal_jax.policies.regal import RegalConfig
from regal_jax.search import brkga
from regal_jax.search.brkga import BRKGAConfig
from regal_jax.training import checkpoints
from regal_jax.training.examples import feature_search


def run_brkga(problem: PlacementProblem, budget: Budget) -> Found:
    """BRKGA as published: uniform mutants, population 100, 10 elites, 80 children, bias 0.7."""
    return _evolve(problem, budget, jax.random.key(budget.seed))


def run_random_search(problem: PlacementProblem, budget: Budget) -> Found:
    """The best of uniformly random chromosomes."""
    check_evaluations(budget.evaluations)
    key, best, cost = jax.random.key(budget.seed), None, np.inf
    history = []
    for start in range(0, budget.evaluations, 100):
        count = min(100, budget.evaluations - start)
        chromosomes = np.asarray(
            jax.random.uniform(jax.random.fold_in(key, start), (count, problem.num_genes))
        )
        costs = np.asarray(problem.fitness(chromosomes))
        if best is None or costs.min() < cost:
            best, cost = chromosomes[costs.argmin()], float(costs.min())
        history.append((start + count, cost))
        budget.on_progress(*history[-1])
        if budget.out_of_time:
            break
    assert best is not None
    return Found(best, history[-1][0], tuple(history))


def run_regal(problem: PlacementProblem, budget: Budget) -> Found:
    """REGAL as published: 400 evaluations for features, the rest steered by the policy."""
    params, config = load_policy(problem, budget.policy)
    first = config.feature_evaluations
    least = first + BRKGAConfig().population
    if budget.evaluations < least:
        raise OptionError(
            f"regal needs at least {least} evaluations ({first} for its features and a population),"
            f" got {budget.evaluations}"
        )
    padded = problem.padded()
    feature_key, search_key = jax.random.split(jax.random.key(budget.seed))
    pinned = pinned_op(problem.graph)
    inputs, best, cost, history = feature_search(
        feature_key, padded, config, padded.operand(), pinned
    )
    start = _found(problem, padded, best, first, np.asarray(history))
    budget.on_progress(first, float(cost))
    actions = _actions(params, inputs, config)
    learned = (actions, inputs.pinned, inputs.producer, config)
    return best_of(start, _evolve(problem, budget.after(start), search_key, learned=learned))


def load_policy(problem: PlacementProblem, path: str | Path | None) -> tuple[Any, RegalConfig]:
    """The given policy, or the shipped one; OptionError if it is not for this kind of problem."""
    path = path or shipped_policy(problem.objective)
    params, config, about = checkpoints.load_policy(path)
    if config.num_devices != problem.num_devices:
        raise OptionError(
            f"the policy {Path(path).name} is for {config.num_devices} devices, not"
            f" {problem.num_devices}; train one with experiments/regal_memory.py --num_devices"
        )
    trained_for = about.get("objective", problem.objective)
    if trained_for != problem.objective:
        raise OptionError(f"the policy {Path(path).name} is for the objective {trained_for}")
    return params, config


def shipped_policy(objective: str) -> Path:
    """Where the package keeps its REGAL policy for an objective. OptionError if there is none."""
    path = Path(__file__).parents[1] / "pretrained" / f"regal_{objective}.policy"
    if not path.exists():
        raise OptionError(f"no REGAL policy is shipped for {objective}; give one with --policy")
    return path


@functools.partial(jax.jit, static_argnames="config")
def _actions(params, inputs, config: RegalConfig):
    """int32[O, A]: the policy's most likely actions."""
    return config.policy.mode(params, inputs)


def _evolve(problem: PlacementProblem, budget: Budget, key, *, learned=None) -> Found:
    """BRKGA in a few calls of jitted parts, with progress between them."""
    config = BRKGAConfig()
    brkga.check_config(config, budget.evaluations)
    padded = problem.padded()
    shape = (padded.shape.ops, padded.shape.tensors)
    part = {"model": padded.cost_model(), "num_tensors": shape[1]}
    part["regal"] = None if learned is None else learned[3]
    operands = (padded.operand(), None if learned is None else learned[:3])
    generations, remainder = divmod(budget.evaluations - config.population, config.newcomers)
    init_key, evolve_key, last_key = jax.random.split(key, 3)
    state, history = _init(init_key, operands, generations=generations, **part)
    done = 0
    while done < generations and not budget.out_of_time:
        last = min(done + _CHUNK, generations)
        state, history = _advance(evolve_key, state, history, done, last, operands, **part)
        done = last
        spent = config.population + done * config.newcomers
        budget.on_progress(spent, float(history[done]))
    if done < generations:
        spent = config.population + done * config.newcomers
        return _found(problem, padded, state.best()[0], spent, np.asarray(history)[: done + 1])
    if remainder:
        state = _finish(last_key, state, operands, remainder=remainder, **part)
        history = jnp.append(history, jnp.min(state.costs))
        budget.on_progress(budget.evaluations, float(history[-1]))
    return _found(problem, padded, state.best()[0], budget.evaluations, np.asarray(history))


_CHUNK = 20
"""Generations between two reports of progress."""


def _parts(operands, model, num_tensors, regal):
    """(fitness, sample_mutants, elite bias) of a search."""
    graph, learned = operands
    cost = functools.partial(fitness.costs, model, graph)
    config = BRKGAConfig()
    if learned is None:
        genes = random_keys.num_genes(model.num_ops, num_tensors, model.num_devices)
        return cost, brkga.uniform_mutants(genes), config.elite_bias
    actions, pinned, producer = learned
    mutants = beta_mutants.learned_mutants(actions, regal.space, num_tensors, pinned)
    bias = beta_mutants.gene_elite_bias(actions, regal.space, producer, config.elite_bias)
    return cost, mutants, bias


_STATIC = ("model", "num_tensors", "regal")


@functools.partial(jax.jit, static_argnames=(*_STATIC, "generations"))
def _init(key, operands, *, generations, **part):
    cost, mutants, _ = _parts(operands, **part)
    state = brkga.init(key, cost, mutants, config=BRKGAConfig())
    return state, jnp.full(generations + 1, jnp.min(state.costs))


@functools.partial(jax.jit, static_argnames=_STATIC)
def _advance(key, state, history, first, last, operands, **part):
    cost, mutants, bias = _parts(operands, **part)
    return brkga.evolve(
        key,
        state,
        history,
        first,
        last,
        cost,
        mutants,
        elite_bias=bias,
        config=BRKGAConfig(),
    )


@functools.partial(jax.jit, static_argnames=(*_STATIC, "remainder"))
def _finish(key, state, operands, *, remainder, **part):
    cost, mutants, bias = _parts(operands, **part)
    last = brkga.last_generation(BRKGAConfig(), remainder)
    return brkga.step(key, state, cost, mutants, elite_bias=bias, config=last)


def _found(problem, padded, chromosome, evaluations: int, history: np.ndarray) -> Found:
    """The result of a padded search, in the problem's own layout."""
    sizes = (problem.graph.num_ops, problem.graph.num_tensors)
    shape = (padded.shape.ops, padded.shape.tensors)
    own = random_keys.unpad(np.asarray(chromosome)[None], sizes, shape, problem.num_devices)
    spent = brkga.history_evaluations(evaluations)
    return Found(own[0], evaluations, tuple(zip(spent, history.tolist(), strict=True)))

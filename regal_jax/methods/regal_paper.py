"""Methods that ask a policy for their distributions: REGAL, GAS and IDRS."""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from regal_jax import registry
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.graphs.features.placement import pinned_op
from regal_jax.methods import evolution
from regal_jax.methods.pretrained import shipped_policy
from regal_jax.options import Budget, Result, best_of
from regal_jax.policies import base
from regal_jax.policies.regal import beta_mutants
from regal_jax.policies.regal.beta_mutants import ActionSpace
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.search.evolution import brkga
from regal_jax.search.evolution.brkga import BRKGAConfig, BRKGAParams, Mutants
from regal_jax.training import checkpoints
from regal_jax.training.regal_examples import feature_search

_method = functools.partial(registry.method, reads_policy=True, learned=True)


@_method("regal_paper", paper="regal_transfer_learning; regal_zero_shot_workshop")
def run_regal_paper(problem: PlacementProblem, budget: Budget) -> Result:
    """REGAL as published: 400 evaluations for features, the rest steered by the policy.

    Deviation: it takes the policy's most likely actions, where the paper samples them.
    """
    return evolve(problem, budget, "regal")


@_method("gas", paper="regal_transfer_learning, 4.2")
def run_gas(problem: PlacementProblem, budget: Budget) -> Result:
    """The graph-as-sequence model (4.2): REGAL with an LSTM over the ops as its encoder."""
    return evolve(problem, budget, "gas")


@_method("idrs", paper="regal_zero_shot_workshop, 3.2")
def run_idrs(problem: PlacementProblem, budget: Budget) -> Result:
    """Instance-dependent random search (workshop paper, 3.2): REGAL's policy, but its distributions
    are only sampled from."""
    guided = _guided(problem, budget, "regal", least=1)
    params = guided.params.mutants
    sampled = evolution.sample(
        problem, guided.budget, guided.key, mutants=guided.mutants, params=params
    )
    return best_of(guided.start, sampled)


def load_policy(
    problem: PlacementProblem, path: Any, system: str = "regal"
) -> tuple[Any, RegalConfig]:
    """The given policy, or the shipped one; OptionError if it is not for this kind of problem."""
    path = path or shipped_policy(problem.objective, system)
    params, config, about = checkpoints.load_policy(path, RegalConfig)
    if config.num_devices != problem.num_devices:
        raise OptionError(
            f"the policy {Path(path).name} is for {config.num_devices} devices, not"
            f" {problem.num_devices}; train one with experiments/regal_memory.py --num_devices"
        )
    trained_for = about.get("objective", problem.objective)
    if trained_for != problem.objective:
        raise OptionError(f"the policy {Path(path).name} is for the objective {trained_for}")
    if (config.encoder == "sequence") != (system == "gas"):
        raise OptionError(f"the policy {Path(path).name} is not one of {system}")
    return params, config


def evolve(
    problem: PlacementProblem, budget: Budget, system: str, config: BRKGAConfig | None = None
) -> Result:
    """The search that a policy of "regal" or "gas" steers.

    Raises OptionError for a policy that doesn't fit, or a budget too small for both searches.
    """
    config = config or BRKGAConfig()
    guided = _guided(problem, budget, system, least=config.initial)
    steered = evolution.evolve(
        problem,
        guided.budget,
        guided.key,
        config=config,
        mutants=guided.mutants,
        params=guided.params,
    )
    return best_of(guided.start, steered)


class _Guided(NamedTuple):
    """The features' search, and what steers the next one, its budget and key."""

    start: Result
    mutants: Mutants
    params: BRKGAParams
    budget: Budget
    key: Any


def _guided(problem: PlacementProblem, budget: Budget, system: str, *, least: int) -> _Guided:
    params, config = load_policy(problem, budget.options.policy, system)
    first = config.feature_evaluations
    if budget.evaluations < first + least:
        raise OptionError(
            f"evaluations must be at least {first + least} ({first} for its features and a"
            f" population), got {budget.evaluations}"
        )
    feature_key, search_key = jax.random.split(jax.random.key(budget.seed))
    inputs, start = _features(problem, feature_key, config)
    budget.on_progress(first, start.cost)
    steering = _steering(params, inputs, config)
    mutants = learned_mutants(config.space, problem.spec.num_tensors)
    return _Guided(start, mutants, steering, budget.after(start), search_key)


def _features(problem: PlacementProblem, key, config: RegalConfig) -> tuple[Any, Result]:
    """The policy's inputs, and the search behind them."""
    inputs, best, history = feature_search(
        key, problem, config, problem.operand, pinned_op(problem.graph)
    )
    spent = brkga.history_evaluations(config.feature_evaluations)
    points = tuple(zip(spent, np.asarray(history, float).tolist(), strict=True))
    chromosome = problem.unpad(np.asarray(best)[None])[0]
    return inputs, Result(problem.decode(chromosome), spent[-1], points)


@functools.lru_cache(maxsize=256)
def learned_mutants(space: ActionSpace, num_tensors: int) -> Mutants:
    """A policy's distribution, which reads (its actions int32[O, A], the pinned op)."""
    return lambda params: beta_mutants.learned_mutants(params[0], space, num_tensors, params[1])


@functools.partial(jax.jit, static_argnames="config")
def _steering(params, inputs, config: RegalConfig) -> BRKGAParams:
    """The elite bias of genes, and what ``learned_mutants`` reads, by the most likely actions."""
    actions = base.call(config, "mode", params, inputs)
    bias = BRKGAConfig().elite_bias
    genes = beta_mutants.gene_elite_bias(actions, config.space, inputs.producer, bias)
    return BRKGAParams(genes, (actions, inputs.pinned))

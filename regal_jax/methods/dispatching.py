"""Searches among dispatching rules: a network's choice for the graph, or the same for all."""

import functools
import os
from collections.abc import Callable

import numpy as np

from regal_jax import registry
from regal_jax.environments.dispatching import rule
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.methods import warm
from regal_jax.methods.pretrained import shipped_policy
from regal_jax.options import Budget, Result
from regal_jax.policies import base
from regal_jax.policies.regal import dispatching
from regal_jax.policies.regal.dispatching import DispatchConfig
from regal_jax.search.evolution import rule_search
from regal_jax.training import checkpoints

RuleSearch = Callable[[PlacementProblem, Budget, int], Result]

RULES = 0.2
"""Of the evaluations, the part for rules; then the best of their schedules are changed."""


@registry.method("regal", reads_policy=True, learned=True)
def run_regal(problem: PlacementProblem, budget: Budget) -> Result:
    """Rules that a network chooses, then changed copies of the best, then changed schedules (ours).

    With few evaluations, or one, these are the network's first choices.
    """
    return _run(problem, budget, chooses=True)


@registry.method("dispatch", reads_policy=True)
def run_dispatch(problem: PlacementProblem, budget: Budget) -> Result:
    """The same search with the policy's rules in their own order: the control of ``regal``."""
    return _run(problem, budget, chooses=False)


def _run(problem: PlacementProblem, budget: Budget, *, chooses: bool) -> Result:
    """Rules for a part of the budget, then changed elites, if enough of it is left."""
    budget.check()
    count = int(RULES * budget.evaluations)
    changes = budget.evaluations - count >= warm.LEAST
    count = count if changes else budget.evaluations
    path = budget.options.policy or shipped_policy("rules")
    found = search_by(path, chooses=chooses)(problem, budget, count)
    return warm.change_elites(problem, budget, found) if changes else found


def search_by(path: str | os.PathLike, *, chooses: bool = True) -> RuleSearch:
    """(problem, budget, count) -> the best of so many rules: a policy's, as its network promises or
    in their own order, and changed copies."""
    params, config, _ = checkpoints.load_policy(path, DispatchConfig)

    def search(problem: PlacementProblem, budget: Budget, count: int) -> Result:
        with base.fitting(config):
            own = dispatching.of_objective(params, problem.objective)
            network, pool = own["network"], np.asarray(own["rules"], float)
        columns = rule.columns(problem)
        promise: rule_search.Promise = rule_search.in_order
        if chooses:
            features = dispatching.features_of(problem, columns)
            promise = functools.partial(_promise, network, features, config)
        return rule_search.search(problem, columns, pool, promise, count, budget)

    return search


def _promise(network, features, config: DispatchConfig, costs, done) -> np.ndarray:
    scaled = (costs / (costs.max() or 1.0)).astype(np.float32)  # only ratios count
    return np.asarray(base.call(config, "log_prob", network, features, scaled, done))

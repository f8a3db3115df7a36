"""Orders of one device that are made choice by choice: by learned weights, or by a rule's."""

import functools

import numpy as np

from regal_jax import registry
from regal_jax.environments.choosing.kernel import Network
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.methods.ordering import SAMPLES, check_problem, of_order
from regal_jax.methods.pretrained import shipped_policy
from regal_jax.options import Budget, Result, one_or_samples
from regal_jax.policies import base
from regal_jax.policies.choosing import NOISE, RULE, NextOpConfig, next_op_policy
from regal_jax.search.orders.choices import NEXT_OP
from regal_jax.training import checkpoints

DECODINGS = ("greedy", "sample")
EVALUATIONS = functools.partial(one_or_samples, samples=SAMPLES)


@registry.method(
    "next_op", evaluations=EVALUATIONS, reads_policy=True, decodings=DECODINGS, learned=True
)
def run_next_op(problem: PlacementProblem, budget: Budget) -> Result:
    """Learned choices of which ready op is next, for the least memory of one device (ours):
    "greedy", or the best of as many orders drawn as evaluations ("sample"), each by weights that
    were learned for it.

    Not for several microbatches of a step, of which it runs too much at once.
    """
    count = _count("next_op", problem, budget)
    system = "next_op" if count else "next_op_greedy"
    path = budget.options.policy or shipped_policy("peak_memory", system)
    params, config, _ = checkpoints.load_policy(path, NextOpConfig)
    base.check_shapes(config, params)
    return _best(problem, budget, next_op_policy(config).network(params), count, 1.0)


@registry.method("lookahead", evaluations=EVALUATIONS, decodings=DECODINGS)
def run_lookahead(problem: PlacementProblem, budget: Budget) -> Result:
    """The same by RULE, which looks an op ahead, with noise: the control of ``next_op``."""
    count = _count("lookahead", problem, budget)
    return _best(problem, budget, NEXT_OP.linear(dict(RULE)), count, NOISE)


def _count(name: str, problem: PlacementProblem, budget: Budget) -> int:
    """How many orders a method draws, 0 for the greedy one."""
    check_problem(problem, name)
    budget.check()
    decoding = budget.options.decoded_by(DECODINGS, "sample", name=name)
    return 0 if decoding == "greedy" else budget.evaluations


def _best(
    problem: PlacementProblem, budget: Budget, network: Network, count: int, noise: float
) -> Result:
    """The best order drawn, the first on ties; the greedy one for none."""
    draws = max(count, 1)
    seeds = np.random.default_rng(budget.seed).integers(2**63, size=draws).astype(np.uint64)
    columns = NEXT_OP.columns(problem.graph)
    orders, peaks = NEXT_OP.drawn(columns, network, seeds, noise if count else 0.0)
    best = of_order(problem, orders[peaks.argmin()])
    point = (draws, best.cost)
    budget.on_progress(*point)
    return best._replace(evaluations=draws, history=(point,))

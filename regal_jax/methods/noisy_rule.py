"""The best simple rule of a machine problem, with noise: what a network over priorities is held
against, and what to use where it does no better."""

import functools
from collections.abc import Sequence

import numpy as np

from regal_jax import registry
from regal_jax.environments.rcpsp.problem import Generation, MachineProblem
from regal_jax.graphs.features.rcpsp import places
from regal_jax.methods.one_shot import SAMPLES
from regal_jax.options import Budget, Result, one_or_samples
from regal_jax.policies.one_shot import plackett_luce
from regal_jax.search.base import best_of_chromosomes
from regal_jax.search.rcpsp import rules

SCALE = 40.0
"""Logits go from this number down to its negative. Of 5, 10, ..., 640 the best of 256 samples on 72
fresh graphs: TPC-H, job shops and graphs on three machine types."""

DECODINGS = ("greedy", "sample")
TRIED: tuple[Generation, ...] = ("parallel", "serial", "backwards")


@registry.method(
    "noisy_rule",
    problems=("rcpsp",),
    evaluations=functools.partial(one_or_samples, samples=SAMPLES),
    decodings=DECODINGS,
)
def run_noisy_rule(problem: MachineProblem, budget: Budget) -> Result:
    """The best of the simple rules, by any generation: its schedule ("greedy"), or the best of
    as many as evaluations of its ranking with Gumbel noise ("sample"; ours)."""
    budget.check()
    decoding = budget.options.decoded_by(DECODINGS, "sample", name="noisy_rule")
    names: Sequence[Generation] = [problem.generation] if budget.options.generation else TRIED
    best, rule = _best_rule([problem.generated(name) for name in names])
    rows = rule[None]
    if decoding == "sample":
        rng = np.random.default_rng(budget.seed)
        rows, _ = plackett_luce.draw(rng, SCALE * places(rule), budget.evaluations)
    return best_of_chromosomes(best, budget, rows)


def _best_rule(tried: list[MachineProblem]) -> tuple[MachineProblem, np.ndarray]:
    """The problem of the shortest schedule of all rules, and that rule's genes float32[O]."""
    found = [(problem, rules.shortest(problem)) for problem in tried]
    problem, (_, rule, _) = min(found, key=lambda one: one[1].makespan)
    return problem, rule

"""The best simple rule of a machine problem, with noise: what a network over priorities is held
against, and what to use where it does no better."""

from collections.abc import Sequence

import numpy as np

from regal_jax import registry
from regal_jax.environments.rcpsp.problem import Generation, MachineProblem
from regal_jax.graphs.features.rcpsp import places
from regal_jax.methods.one_shot import DECODINGS, default_evaluations
from regal_jax.options import Budget, Result
from regal_jax.search.rcpsp import rules

SCALE = 40.0
"""Logits go from this number down to its negative. Of 5, 10, ..., 640 the best of 256 samples on 72
fresh graphs: TPC-H, job shops and graphs on three machine types."""

TRIED: tuple[Generation, ...] = ("parallel", "serial", "backwards")


@registry.method(
    "noisy_rule",
    problems=("rcpsp",),
    evaluations=default_evaluations,
    decodings=tuple(DECODINGS),
)
def run_noisy_rule(problem: MachineProblem, budget: Budget) -> Result:
    """The best of the simple rules, by any generation: its schedule ("greedy"), or the best of
    as many as evaluations of its ranking with Gumbel noise ("sample"; ours). Or ("brkga") the
    genetic search of "one_shot", by parallel generation, that begins with 256 of these."""
    budget.check()
    decoding = budget.options.decoded_by(DECODINGS, "sample", name="noisy_rule")
    is_any = not (budget.options.generation or decoding == "brkga")
    names: Sequence[Generation] = TRIED if is_any else [problem.generation]
    best, rule = _best_rule([problem.generated(name) for name in names])
    return DECODINGS[decoding](best, SCALE * places(rule), budget)


def _best_rule(tried: list[MachineProblem]) -> tuple[MachineProblem, np.ndarray]:
    """The problem of the shortest schedule of all rules, and that rule's genes float32[O]."""
    found = [(problem, rules.shortest(problem)) for problem in tried]
    problem, (_, rule, _) = min(found, key=lambda one: one[1].makespan)
    return problem, rule

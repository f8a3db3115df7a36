"""The best simple rule of a machine problem, with noise: what a network over priorities is held
against, and what to use where it does no better."""

from collections.abc import Sequence

import numpy as np

from regal_jax import registry
from regal_jax.environments.rcpsp.problem import Generation, MachineProblem
from regal_jax.errors import OptionError
from regal_jax.graphs.features.rcpsp import places
from regal_jax.options import Budget, Options, Result
from regal_jax.policies.one_shot import plackett_luce, policy
from regal_jax.search.base import best_of_chromosomes
from regal_jax.search.rcpsp import rules

SAMPLES = 256
"""Rankings drawn, as one-shot sampling has them."""
SCALE = 40.0
"""Logits go from this number down to its negative. Of 5, 10, ..., 640 the best of 256 samples on 72
fresh graphs: TPC-H, job shops and graphs on three machine types."""

DECODINGS = ("greedy", "sample")
TRIED: tuple[Generation, ...] = ("parallel", "serial")


def default_evaluations(num_ops: int, options: Options) -> int:
    """One greedy schedule, or SAMPLES."""
    return 1 if options.decoding == "greedy" else SAMPLES


@registry.method(
    "noisy_rule", problems=("rcpsp",), evaluations=default_evaluations, decodings=DECODINGS
)
def run_noisy_rule(problem: MachineProblem, budget: Budget) -> Result:
    """The best of the simple rules, by parallel or serial generation: its schedule ("greedy"), or
    the best of as many as evaluations of its ranking with Gumbel noise ("sample"; ours)."""
    budget.check()
    options = budget.options
    decoding = options.decoding or "sample"
    if decoding not in DECODINGS:
        raise OptionError(f"noisy_rule is decoded by {', '.join(DECODINGS)}, not by {decoding}")
    names: Sequence[Generation] = [problem.generation] if options.generation else TRIED
    best, rule = _best_rule([problem.generated(name) for name in names])
    rows = rule[None]
    if decoding == "sample":
        rng = np.random.default_rng(budget.seed)
        rows, _ = plackett_luce.draw(rng, SCALE * places(rule), budget.evaluations)
    return best_of_chromosomes(best, budget, policy.chromosomes(best, rows))


def _best_rule(tried: list[MachineProblem]) -> tuple[MachineProblem, np.ndarray]:
    """The problem of the shortest schedule of all rules, and that rule's genes float32[O]."""
    found = [(problem, rules.shortest(problem)[1]) for problem in tried]
    return min(found, key=lambda one: one[0].makespans(policy.chromosomes(one[0], one[1][None]))[0])

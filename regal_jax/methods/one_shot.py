"""One-shot priority sampling behind ``optimize`` (one_shot_priority_sampling, 3, 5, D and G)."""

import dataclasses
from collections.abc import Callable

import jax
import numpy as np

from regal_jax import registry
from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.methods import evolution
from regal_jax.methods.pretrained import shipped_policy
from regal_jax.options import Budget, Options, Result, one_or_samples
from regal_jax.policies import base
from regal_jax.policies.one_shot import plackett_luce
from regal_jax.policies.one_shot.policy import OneShotConfig
from regal_jax.search.base import best_of_chromosomes
from regal_jax.search.evolution.brkga import BRKGAConfig
from regal_jax.search.rcpsp import rules
from regal_jax.training import checkpoints
from regal_jax.training.one_shot_inputs import padded_inputs

SAMPLES = 256
"""Rankings sampled, S(256) of the paper."""
GENETIC = BRKGAConfig(population=1000, elites=200, children=700)
"""The genetic search of appendix G.

The paper gives a population of 1,000 and Pymoo; the other numbers are those of Pymoo's BRKGA, which
add up to it.
"""
GENETIC_SAMPLES = 256
"""Priorities that a policy samples for its initial population.

Deviation: the paper has no others in it; here uniform ones fill it up.
"""
GENETIC_EVALUATIONS = GENETIC.initial + 100 * GENETIC.newcomers
"""A hundred generations."""

PAPER = "one_shot_priority_sampling"


def default_evaluations(num_ops: int, options: Options) -> int:
    """One greedy schedule, S(256), or a hundred generations."""
    if options.decoding == "brkga":
        return GENETIC_EVALUATIONS
    return one_or_samples(num_ops, options, samples=SAMPLES)


@registry.method(
    "one_shot",
    problems=("rcpsp",),
    evaluations=default_evaluations,
    reads_policy=True,
    decodings=("greedy", "sample", "brkga"),
    learned=True,
    paper=PAPER,
)
def run_one_shot(problem: MachineProblem, budget: Budget) -> Result:
    """One pass of the encoder, then rankings by decoding.

    "greedy"; "sample", the best of as many as evaluations (3.2); or "brkga", which begins with 256
    of them (appendix G).

    Of the policy's generation, unless one is asked for.
    """
    budget.check()
    path = budget.options.policy or shipped_policy(task_of(problem.graph), "one_shot")
    params, config, _ = checkpoints.load_policy(path, OneShotConfig)
    decoding = budget.options.decoded_by(DECODINGS, "sample", name="one_shot")
    if decoding == "brkga":
        config = forwards(config)
    generation = budget.options.generation or config.generation
    if "backwards" in (generation, config.generation):
        config = dataclasses.replace(config, generation=generation)
    problem = problem.generated(generation)
    logits = op_logits(params, config, problem.graph)
    return DECODINGS[decoding](problem, logits, budget)


def op_logits(params, config: OneShotConfig, graph: ComputationGraph) -> np.ndarray:
    """float32[O]: what a policy says of a graph's ops; padded so that few shapes are compiled."""
    found = base.call(config, "encode", params, padded_inputs(graph, config))
    return np.asarray(found)[: graph.num_ops]


def forwards(config: OneShotConfig) -> OneShotConfig:
    """A policy for what goes on from priorities of the graph itself: by parallel generation if its
    own is "backwards"."""
    generation = "parallel" if config.generation == "backwards" else config.generation
    return dataclasses.replace(config, generation=generation)


def task_of(graph: ComputationGraph) -> str:
    """Which shipped policy is for a graph: "job_shop" (chains on machines of one unit), "cluster"
    (one type of machine) or "machines" (all others)."""
    pairs, num_ops = graph.op_pairs, graph.num_ops
    degree = np.bincount(pairs.ravel(), minlength=num_ops)
    into = np.bincount(pairs[:, 1], minlength=num_ops)
    chains = degree.max(initial=0) <= 2 and into.max(initial=0) <= 1
    assert graph.capacity is not None
    if chains and np.all(graph.capacity == 1):
        return "job_shop"
    return "cluster" if len(graph.capacity) == 1 else "machines"


def samples(logits: np.ndarray, seed: int, count: int) -> np.ndarray:
    """float32[count, O]: priorities that a policy samples."""
    return plackett_luce.draw(np.random.default_rng(seed), logits, count)[0]


def _greedy(problem: MachineProblem, logits: np.ndarray, budget: Budget) -> Result:
    return best_of_chromosomes(problem, budget, logits[None])


def _sampled(problem: MachineProblem, logits: np.ndarray, budget: Budget) -> Result:
    return best_of_chromosomes(problem, budget, samples(logits, budget.seed, budget.evaluations))


def _searched(problem: MachineProblem, logits: np.ndarray, budget: Budget) -> Result:
    known = np.stack([rules.genes(row) for row in samples(logits, budget.seed, GENETIC_SAMPLES)])
    key = jax.random.key(budget.seed)
    return evolution.evolve(problem, budget, key, config=GENETIC, known=known)


DECODINGS: dict[str, Callable[[MachineProblem, np.ndarray, Budget], Result]] = {
    "greedy": _greedy,
    "sample": _sampled,
    "brkga": _searched,
}

"""REGAL's searches on one padded graph, as jitted parts: uniform, and steered by a policy."""

from typing import Any

import chex
import jax
import jax.numpy as jnp

from regal_jax.environments.placement import chromosome, cost
from regal_jax.environments.placement.cost import CostModel
from regal_jax.graphs.features.placement import PolicyInputs
from regal_jax.policies.regal import beta_mutants
from regal_jax.policies.regal.beta_mutants import ActionSpace
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.search.base import Trajectory
from regal_jax.search.evolution import brkga
from regal_jax.search.evolution.brkga import BRKGAConfig


def uniform_search(
    key: chex.PRNGKey,
    model: CostModel,
    graph: Any,
    evaluations: int,
    *,
    num_tensors: int,
    pinned: jax.Array | None = None,
) -> Trajectory:
    """Standard BRKGA on one graph; ``pinned`` fixes that op's placement to device 0.

    Args:
      key: random key.
      model, graph: see ``cost.costs``.
      evaluations: budget.
      num_tensors: T of the chromosome's layout.
    """
    genes = chromosome.num_genes(model.num_ops, num_tensors, model.num_devices)
    sample = brkga.uniform_mutants(genes)
    if pinned is not None:
        uniform = sample

        def sample(key, count):
            return beta_mutants.pin(uniform(key, count), pinned, model.num_devices)

    return brkga.search(
        key, lambda chromosomes: cost.costs(model, graph, chromosomes), sample, evaluations
    )


def learned_search(
    key: chex.PRNGKey,
    model: CostModel,
    graph: Any,
    evaluations: int,
    *,
    inputs: PolicyInputs,
    actions: jax.Array,
    space: ActionSpace,
) -> Trajectory:
    """BRKGA with the distributions that ``actions`` int32[O, A] stand for.

    Other arguments as in ``uniform_search``.
    """
    num_tensors, bias = len(inputs.producer), BRKGAConfig().elite_bias
    return brkga.search(
        key,
        lambda chromosomes: cost.costs(model, graph, chromosomes),
        beta_mutants.learned_mutants(actions, space, num_tensors, inputs.pinned),
        evaluations,
        elite_bias=beta_mutants.gene_elite_bias(actions, space, inputs.producer, bias),
    )


def steered_cost(
    key: chex.PRNGKey,
    model: CostModel,
    graph: Any,
    evaluations: int,
    inputs: PolicyInputs,
    actions: jax.Array,
    config: RegalConfig,
) -> jax.Array:
    """float[]: the least cost that REGAL finds, its actions int32[O, A] given; of ``evaluations``
    the features' search has some."""
    left, space = evaluations - config.feature_evaluations, config.space
    found = learned_search(key, model, graph, left, inputs=inputs, actions=actions, space=space)
    return jnp.min(found.state.costs)

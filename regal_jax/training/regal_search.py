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
from regal_jax.search.placements import cheap


def evaluations_before(config: RegalConfig) -> int:
    """Of the budget, what is spent before the policy acts."""
    if config.feature_set != "incumbent":
        return config.feature_evaluations
    return config.feature_evaluations + cheap.most_schedules(config.num_devices)


def uniform_search(
    key: chex.PRNGKey,
    model: CostModel,
    graph: Any,
    evaluations: int,
    *,
    num_tensors: int,
    pinned: jax.Array | None = None,
    warm_start: jax.Array | None = None,
    config: BRKGAConfig | None = None,
) -> Trajectory:
    """Standard BRKGA on one graph; ``pinned`` fixes that op's placement to device 0.

    Args:
      key: random key.
      model, graph: see ``cost.costs``.
      evaluations: budget.
      num_tensors: T of the chromosome's layout.
      warm_start: float32[W, genes], known solutions.
      config: population parameters.
    """
    genes = chromosome.num_genes(model.num_ops, num_tensors, model.num_devices)
    sample = brkga.uniform_mutants(genes)
    if pinned is not None:
        uniform = sample

        def sample(key, count):
            return beta_mutants.pin(uniform(key, count), pinned, model.num_devices)

    return brkga.search(
        key,
        lambda chromosomes: cost.costs(model, graph, chromosomes),
        sample,
        evaluations,
        warm_start=warm_start,
        config=config,
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
    warm_start: jax.Array | None = None,
    config: BRKGAConfig | None = None,
) -> Trajectory:
    """BRKGA with the distributions that ``actions`` int32[O, A] stand for.

    Other arguments as in ``uniform_search``.
    """
    config = config or BRKGAConfig()
    num_tensors = len(inputs.producer)
    bias = beta_mutants.gene_elite_bias(actions, space, inputs.producer, config.elite_bias)
    return brkga.search(
        key,
        lambda chromosomes: cost.costs(model, graph, chromosomes),
        beta_mutants.learned_mutants(actions, space, num_tensors, inputs.pinned),
        evaluations,
        elite_bias=bias,
        warm_start=warm_start,
        config=config,
    )


def regal_search(
    params: Any,
    key: chex.PRNGKey,
    model: CostModel,
    graph: Any,
    evaluations: int,
    *,
    inputs: PolicyInputs,
    config: RegalConfig,
    stochastic: bool = False,
    warm_start: jax.Array | None = None,
) -> Trajectory:
    """The second part of REGAL: actions from the policy, then the search they steer.

    ``evaluations`` is what is left of the budget after the features (K - 400). The actions are the
    most likely ones unless ``stochastic``.
    """
    action_key, search_key = jax.random.split(key)
    return learned_search(
        search_key,
        model,
        graph,
        evaluations,
        inputs=inputs,
        actions=_actions(params, action_key if stochastic else None, inputs, config),
        space=config.space,
        warm_start=warm_start,
    )


def _actions(
    params: Any, key: chex.PRNGKey | None, inputs: PolicyInputs, config: RegalConfig
) -> jax.Array:
    """int32[O, A]: a sample, or without a key the most likely actions."""
    policy = config.policy
    actions = policy.mode(params, inputs) if key is None else policy.sample(params, key, inputs)
    return jnp.asarray(actions)

"""REGAL: a policy looks at a graph and chooses the distributions that BRKGA samples from."""

import dataclasses
from typing import Any

import chex
import jax
import jax.numpy as jnp

from regal_jax import registry
from regal_jax.environments.placement import chromosome, cost
from regal_jax.environments.placement.cost import CostModel
from regal_jax.graphs.features.placement import FeatureSet, PolicyInputs
from regal_jax.policies.regal import beta_mutants
from regal_jax.policies.regal.beta_mutants import ActionSpace
from regal_jax.policies.regal.heads import Encoder, Head, Policy, mutant_policy
from regal_jax.search.base import Trajectory
from regal_jax.search.evolution import brkga
from regal_jax.search.evolution.brkga import BRKGAConfig
from regal_jax.search.placements import incumbents


@dataclasses.dataclass(frozen=True)
class RegalConfig:
    """What a REGAL policy is made of; the defaults are the paper's best model (A.5).

    Attributes:
      size: of node and edge states. rounds: T of message passing. normalise, head, encoder: see
        ``mutant_policy``; encoder "sequence" makes it GAS.
      levels: k of A.2. placement, scheduling, elite_bias: which actions (table 3).
      num_devices: D. feature_set: see ``policy_inputs``.
      feature_evaluations: of the short uniform search behind the features (A.1).
      race: when used, the learned search goes on only if it soon beats that uniform search; else
        the uniform one goes on (not in the paper). Training doesn't look at it.
    """

    size: int = 32
    rounds: int = 16
    normalise: bool = False
    head: Head = "independent"
    levels: int = 2
    placement: bool = True
    scheduling: bool = True
    elite_bias: bool = False
    num_devices: int = 2
    feature_set: FeatureSet = "paper"
    feature_evaluations: int = 400
    encoder: Encoder = "message_passing"
    race: bool = False

    @property
    def evaluations_before(self) -> int:
        """Of the budget, what is spent before the policy acts."""
        known = incumbents.EVALUATIONS if self.feature_set == "incumbent" else 0
        return self.feature_evaluations + known

    @property
    def space(self) -> ActionSpace:
        return ActionSpace(
            self.levels, self.placement, self.scheduling, self.elite_bias, self.num_devices
        )

    @property
    def policy(self) -> Policy:
        """See ``registry.make_policy``."""
        return registry.make_policy(self)


@registry.policy("regal", RegalConfig)
def regal_policy(config: RegalConfig) -> Policy:
    """The policy of a configuration."""
    return mutant_policy(
        config.space,
        encoder=config.encoder,
        size=config.size,
        rounds=config.rounds,
        normalise=config.normalise,
        head=config.head,
    )


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

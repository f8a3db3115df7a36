"""REGAL: a policy looks at a graph and chooses the distributions that BRKGA samples from."""

import dataclasses

from regal_jax import registry
from regal_jax.graphs.features.placement import FeatureSet
from regal_jax.policies.networks.message_passing import Aggregation
from regal_jax.policies.regal.beta_mutants import ActionSpace
from regal_jax.policies.regal.heads import Encoder, Head, Policy, mutant_policy


@dataclasses.dataclass(frozen=True)
class RegalConfig:
    """What a REGAL policy is made of; the defaults are the paper's best model (A.5) but for
    its aggregation, which was the mean.

    Attributes:
      size: of node and edge states. rounds: T of message passing. aggregation, normalise, head,
        encoder: see ``mutant_policy``; encoder "sequence" makes it GAS.
      levels: k of A.2. placement, scheduling, elite_bias: which actions (table 3).
      num_devices: D. feature_set: see ``policy_inputs``.
      feature_evaluations: of the short uniform search behind the features (A.1).
      race: when used, the learned search goes on only if it soon beats that uniform search; else
        the uniform one goes on (not in the paper). Training doesn't look at it.
    """

    size: int = 32
    rounds: int = 16
    aggregation: Aggregation = "sum"
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
        aggregation=config.aggregation,
        normalise=config.normalise,
        head=config.head,
    )

"""Priorities of a machine problem's ops in one pass (one_shot_priority_sampling, 3.2).

Schedules are made from the logits by list scheduling: of the logits themselves ("greedy"), or with
Gumbel noise added (``plackett_luce``).
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from regal_jax import registry
from regal_jax.environments.rcpsp.problem import Generation
from regal_jax.graphs.features.rcpsp import MachineFeatureSet
from regal_jax.graphs.features.relations import Relations
from regal_jax.policies.networks.message_passing import MLP
from regal_jax.policies.networks.topoformer import Encoder, EncoderConfig
from regal_jax.policies.topological_order.policy import OrderingInputs
from regal_jax.policies.topological_order.sampler import standardised


@dataclasses.dataclass(frozen=True)
class OneShotConfig(EncoderConfig):
    """An encoder and what it sees; the defaults are the paper's (F.2, F.3).

    Attributes:
      dimensions: of the Laplacian positional encoding.
      feature_set, num_types: see ``machine_features``.
      generation: how schedules are made of priorities, see ``MachineProblem``; the paper's is
        "parallel". With "backwards" the policy reads the graph turned round.
      guided: a new policy ranks ops as the best of the simple rules does on
        the graph at hand, which it also sees (not in the paper).
      guide_scale: then its logits go from this number down to its negative.
      standardised: logits of mean 0 and deviation 5, as in neural_topological_ordering (eq. 17):
        the ablation of appendix H.
    """

    dimensions: int = 20
    feature_set: MachineFeatureSet = "paper"
    num_types: int = 1
    guided: bool = False
    guide_scale: float = 20.0
    standardised: bool = False
    generation: Generation = "parallel"


class OneShotPolicy(NamedTuple):
    """A distribution over rankings of ops, given parameters.

    Attributes:
      init: (key, inputs) -> params.
      encode: (params, inputs) -> float32[O], logits of the ranking; 0 for padding.
    """

    init: Callable[..., Any]
    encode: Callable[..., jax.Array]


class Head(nn.Module):
    """Logits of ops (eq. 6).

    With ``guided``, the first feature is added to the logits times a learned number, and a new
    policy has that alone.
    """

    config: OneShotConfig

    @nn.compact
    def __call__(self, features: jax.Array, related: Relations) -> jax.Array:
        config = self.config
        state = Encoder(config, name="encoder")(features, related)
        logits = MLP(config.size, 1, zero_last=config.guided, name="head")(state)[:, 0]
        if config.guided:
            scale = nn.initializers.constant(config.guide_scale)
            logits += self.param("guide", scale, ()) * features[:, 0]
        if config.standardised:
            return standardised(logits, related.real)
        return jnp.where(related.real, logits, 0.0)


@registry.policy("one_shot", OneShotConfig)
def one_shot_policy(config: OneShotConfig) -> OneShotPolicy:
    """The policy of a configuration."""
    module = Head(config)

    def init(key, inputs: OrderingInputs):
        return module.init(key, inputs.features, inputs.relations)

    def encode(params, inputs: OrderingInputs):
        return module.apply(params, inputs.features, inputs.relations)

    return OneShotPolicy(init, encode)

"""REGAL: a policy looks at a graph and chooses the distributions that BRKGA samples from."""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp

from regal_jax import registry
from regal_jax.graphs.features.placement import FeatureSet, PolicyInputs
from regal_jax.policies.networks.lstm import SequenceEncoder
from regal_jax.policies.networks.message_passing import Aggregation, MessagePassing
from regal_jax.policies.regal.beta_mutants import ActionSpace
from regal_jax.policies.regal.heads import HEADS, Head

Params = Any
Encoder = Literal["message_passing", "sequence"]


class Policy(NamedTuple):
    """A distribution over actions int32[O, A], as pure functions of one graph.

    Attributes:
      init: (key, inputs) -> params.
      sample: (params, key, inputs) -> actions.
      mode: (params, inputs) -> the most likely actions (greedy, op by op, if autoregressive).
      log_prob: (params, inputs, actions) -> float[], log p(actions | graph); padding is left out.
      entropy: (params, inputs, actions) -> float[], mean entropy of a choice in nats.
    """

    init: Callable[[chex.PRNGKey, PolicyInputs], Params]
    sample: Callable[[Params, chex.PRNGKey, PolicyInputs], jax.Array]
    mode: Callable[[Params, PolicyInputs], jax.Array]
    log_prob: Callable[[Params, PolicyInputs, jax.Array], jax.Array]
    entropy: Callable[[Params, PolicyInputs, jax.Array], jax.Array]


@dataclasses.dataclass(frozen=True)
class RegalConfig:
    """What a REGAL policy is made of; the defaults are the paper's best model (A.5).

    Attributes:
      size: of node and edge states. rounds, aggregation: T of message passing, and how it is done.
      head: "independent" (eq. 6), or "autoregressive": an LSTM along the ops' order, fed with the
        choices made so far (section 3.3).
      encoder: REGAL's "message_passing", or the "sequence" of GAS (section 4.2).
      levels: k of A.2. placement, scheduling, elite_bias: which actions (table 3).
      num_devices: D. feature_set: see ``policy_inputs``.
      feature_evaluations: of the short uniform search behind the features (A.1).
    """

    size: int = 32
    rounds: int = 16
    aggregation: Aggregation = "mean"
    head: Head = "independent"
    levels: int = 2
    placement: bool = True
    scheduling: bool = True
    elite_bias: bool = False
    num_devices: int = 2
    feature_set: FeatureSet = "paper"
    feature_evaluations: int = 400
    encoder: Encoder = "message_passing"

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
    """The policy of a configuration: an encoder of the graph, then a head that predicts each op's
    choices.

    Deviations: the autoregressive head runs along op indices, which importers make topological. The
    last layer of a new policy is zero, so that it starts uniform.
    """
    space, size = config.space, config.size
    encoders: dict[str, Callable[[], nn.Module]] = {
        "message_passing": lambda: MessagePassing(size, config.rounds, config.aggregation),
        "sequence": lambda: SequenceEncoder(size),
    }
    module = HEADS[config.head](space=space, size=size, new_encoder=encoders[config.encoder])

    def init(key, inputs):
        shape = (len(inputs.nodes), space.num_choices)
        return module.init(key, inputs, jnp.zeros(shape, jnp.int32), None)

    def choose(params, key, inputs):
        return module.apply(params, inputs, None, key)[1]

    def log_probs(params, inputs, actions):
        logits, _ = module.apply(params, inputs, actions, None)
        return jax.nn.log_softmax(logits)

    def log_prob(params, inputs, actions):
        chosen = jnp.take_along_axis(log_probs(params, inputs, actions), actions[..., None], -1)
        return jnp.sum(jnp.where(inputs.real[:, None, None], chosen, 0.0))

    def entropy(params, inputs, actions):
        logs = log_probs(params, inputs, actions)
        each = -jnp.sum(jnp.exp(logs) * logs, axis=-1)
        return jnp.sum(each * inputs.real[:, None]) / (
            jnp.maximum(jnp.sum(inputs.real), 1) * space.num_choices
        )

    return Policy(
        init=init,
        sample=choose,
        mode=lambda params, inputs: choose(params, None, inputs),
        log_prob=log_prob,
        entropy=entropy,
    )

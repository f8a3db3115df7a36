"""Policies over topological orders: an encoder of the graph, and how orders are drawn from it."""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import chex
import jax
import jax.numpy as jnp

from regal_jax import registry
from regal_jax.errors import OptionError
from regal_jax.graphs.features.ordering import OrderingFeatureSet
from regal_jax.graphs.features.relations import Relations
from regal_jax.policies.networks.topoformer import EncoderConfig
from regal_jax.policies.topological_order import autoregressive, sampler

DecoderName = Literal["nar", "ar"]
GUIDES = ("program_order", "depth_first", "breadth_first", "lpmf")
"""The simple rules that a guided policy sees."""


@dataclasses.dataclass(frozen=True)
class OrderingConfig(EncoderConfig):
    """An encoder and what it sees; the defaults are the paper's (C.2, C.5).

    Attributes:
      dimensions: of the Laplacian positional encoding.
      feature_set: see ``ordering_features``.
      decoder: "nar" draws orders by priorities, that are found in one pass (section 4.2); "ar" sees
        the ops before at every step (appendix B, ``autoregressive``). The paper's "GNN
        encoder + AR decoder", the network of Kool et al. with messages on the graph's edges only,
        is "ar" with the encoder "topoformer_edges": dot-product attention like theirs, between the
        ends of edges. The paper doesn't say in which direction; ours is both, with heads of their
        own. The "gat" encoders have additive scores, which theirs has not.
      guided: the policy also sees where simple rules put each op, and begins as the best of them
        (not in the paper); for "nar".
    """

    dimensions: int = 20
    feature_set: OrderingFeatureSet = "paper"
    decoder: DecoderName = "nar"
    guided: bool = False


@chex.dataclass(frozen=True)
class OrderingInputs:
    """What a policy sees of a graph, padded: features float32[O, F], and relations."""

    features: chex.Array
    relations: Relations


class OrderingPolicy(NamedTuple):
    """A distribution over the topological orders of a graph, given parameters.

    Attributes:
      init: (key, inputs) -> params.
      priorities: (params, inputs) -> float32[O]. OptionError if the decoder has none.
      log_prob: (params, inputs, positions int32[S, O]) -> float32[S].
      sample: (params, key, inputs, count) -> positions int32[S, O]; padding gets O.
      mode: (params, inputs) -> positions int32[O], the most likely op at each step.
      encode: (params, inputs) -> encoding, which all steps of all orders share.
      logits: (encoding, ready bool[N, O], last int32[N], first int32[N]) -> float32[N, O], of the
        next op after N partial orders, from the schedulable ops, the order's last op and its first
        one (O or -1 if there are none); at most -1e30 for ops that aren't ready.
    """

    init: Callable[..., Any]
    priorities: Callable[..., jax.Array]
    log_prob: Callable[..., jax.Array]
    sample: Callable[..., jax.Array]
    mode: Callable[..., jax.Array]
    encode: Callable[..., Any]
    logits: Callable[..., jax.Array]


@registry.policy("topoformer", OrderingConfig)
def ordering_policy(config: OrderingConfig) -> OrderingPolicy:
    """The policy of a configuration."""
    return _autoregressive(config) if config.decoder == "ar" else _by_priorities(config)


def _by_priorities(config: OrderingConfig) -> OrderingPolicy:
    """Priorities in one pass (non-autoregressive, section 4.2)."""
    module = sampler.Priorities(config, config.guided)

    def init(key, inputs: OrderingInputs):
        return module.init(key, inputs.features, inputs.relations)

    def priorities(params, inputs: OrderingInputs):
        return module.apply(params, inputs.features, inputs.relations)

    def log_prob(params, inputs: OrderingInputs, positions):
        priority, related = priorities(params, inputs), inputs.relations
        one = lambda position: sampler.log_prob(  # noqa: E731
            priority, position, related.senders, related.receivers
        )
        return jax.vmap(one)(positions)

    def logits(priority, ready, last, first):
        return jnp.where(ready, priority, -jnp.inf)

    sample, mode = _drawing(sampler.sample_positions, priorities)
    return OrderingPolicy(init, priorities, log_prob, sample, mode, priorities, logits)


def _autoregressive(config: OrderingConfig) -> OrderingPolicy:
    """One pass of the encoder, whose op representations all steps share (appendix B)."""
    module = autoregressive.Decoder(config)

    def init(key, inputs: OrderingInputs):
        return module.init(key, inputs.features, inputs.relations)

    def priorities(params, inputs: OrderingInputs):
        raise OptionError("an autoregressive policy has no priorities")

    def encode(params, inputs: OrderingInputs):
        return module.apply(params, inputs.features, inputs.relations)

    def log_prob(params, inputs: OrderingInputs, positions):
        ends = inputs.relations.senders, inputs.relations.receivers
        return autoregressive.log_prob(encode(params, inputs), positions, *ends)

    logits = jax.vmap(autoregressive.logits, (None, 0, 0, 0))
    sample, mode = _drawing(autoregressive.sample_positions, encode)
    return OrderingPolicy(init, priorities, log_prob, sample, mode, encode, logits)


def _drawing(
    sample_positions: Callable[..., jax.Array], encode: Callable[..., Any]
) -> tuple[Callable[..., jax.Array], Callable[..., jax.Array]]:
    """(sample, mode) of a policy: one pass of ``encode``, which all its orders share."""

    def sample(params, key, inputs: OrderingInputs, count: int):
        encoding, keys = encode(params, inputs), jax.random.split(key, count)
        return jax.vmap(sample_positions, (0, None, None))(keys, encoding, inputs.relations)

    def mode(params, inputs: OrderingInputs):
        unused = jax.random.key(0)
        return sample_positions(unused, encode(params, inputs), inputs.relations, greedy=True)

    return sample, mode


def flip_signs(key: chex.PRNGKey, inputs: OrderingInputs, dimensions: int) -> OrderingInputs:
    """The inputs with random signs of the positional encoding, its last ``dimensions`` columns.

    An eigenvector's sign means nothing (Dwivedi and Bresson 2020, section 3.1).
    """
    width = inputs.features.shape[-1]
    signs = jax.random.rademacher(key, (width,), jnp.float32)
    signs = jnp.where(jnp.arange(width) < width - dimensions, 1.0, signs)
    return OrderingInputs(features=inputs.features * signs, relations=inputs.relations)

"""Policies over mutant distributions: graph -> one action vector per op (REGAL 3.3)."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp

from regal_jax.graphs.features.placement import PolicyInputs
from regal_jax.policies.networks.lstm import SequenceEncoder
from regal_jax.policies.networks.message_passing import MLP, Aggregation, MessagePassing
from regal_jax.policies.regal.beta_mutants import ActionSpace

Params = Any
Encoder = Literal["message_passing", "sequence"]
Head = Literal["independent", "autoregressive"]

NewEncoder = Callable[[], nn.Module]
"""Makes a module: PolicyInputs -> op representations float32[O, size]."""


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


def mutant_policy(
    space: ActionSpace,
    *,
    encoder: Encoder = "message_passing",
    size: int = 32,
    rounds: int = 16,
    aggregation: Aggregation = "sum",
    normalise: bool = False,
    head: Head = "independent",
) -> Policy:
    """A policy: an encoder of the graph, then a head that predicts each op's choices.

    Args:
      space: the choices, A per op among k.
      encoder: REGAL's "message_passing", or the "sequence" of GAS (section 4.2).
      size: of op representations. rounds, aggregation, normalise: of the message passing.
      head: "independent" (eq. 6), or "autoregressive": an LSTM along the ops' order, fed with the
        choices made so far (section 3.3).

    Deviations: the autoregressive head runs along op indices, which importers make topological. The
    last layer of a new policy is zero, so that it starts uniform.
    """
    encoders: dict[str, NewEncoder] = {
        "message_passing": lambda: MessagePassing(size, rounds, aggregation, normalise),
        "sequence": lambda: SequenceEncoder(size),
    }
    module = _HEADS[head](space=space, size=size, new_encoder=encoders[encoder])

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


def _choose(logits: jax.Array, key: chex.PRNGKey | None) -> jax.Array:
    """int32[...]: a sample from logits [..., k], or their argmax without a key."""
    if key is None:
        return jnp.argmax(logits, axis=-1).astype(jnp.int32)
    return jax.random.categorical(key, logits).astype(jnp.int32)


class _Independent(nn.Module):
    """Choices of different ops are independent given the graph (eq. 6)."""

    space: ActionSpace
    size: int
    new_encoder: NewEncoder

    @nn.compact
    def __call__(self, inputs, actions, key):
        state = self.new_encoder()(inputs)
        space = self.space
        logits = MLP(self.size, space.num_choices * space.levels, zero_last=True)(state)
        logits = logits.reshape(-1, space.num_choices, space.levels)
        return logits, _choose(logits, key) if actions is None else actions


class _Autoregressive(nn.Module):
    """An LSTM along the ops in index order, which sees the choices made for the op before."""

    space: ActionSpace
    size: int
    new_encoder: NewEncoder

    @nn.compact
    def __call__(self, inputs, actions, key):
        state = self.new_encoder()(inputs)
        space, num_ops = self.space, len(state)
        given = jnp.zeros((num_ops, space.num_choices), jnp.int32) if actions is None else actions
        keys = jnp.zeros(num_ops) if key is None else jax.random.split(key, num_ops)
        follow, sampled = actions is not None, key is not None
        cell = _Step(space=space, size=self.size, follow=follow, sampled=sampled)
        start = (jnp.zeros(self.size), jnp.zeros(self.size))
        previous = jnp.zeros((space.num_choices, space.levels))
        run = nn.scan(
            lambda module, carry, xs: module(carry, xs),
            variable_broadcast="params",
            split_rngs={"params": False},
        )
        return run(cell, (start, previous), (state, given, keys))[1]


class _Step(nn.Module):
    """One op: LSTM over (its representation, the last op's choices) -> logits and choice."""

    space: ActionSpace
    size: int
    follow: bool
    sampled: bool

    @nn.compact
    def __call__(self, carry, xs):
        memory, previous = carry
        state, given, key = xs
        memory, output = nn.OptimizedLSTMCell(self.size)(
            memory, jnp.concatenate([state, previous.ravel()])
        )
        logits = MLP(self.size, self.space.num_choices * self.space.levels, zero_last=True)(output)
        logits = logits.reshape(self.space.num_choices, self.space.levels)
        choice = given if self.follow else _choose(logits, key if self.sampled else None)
        return (memory, jax.nn.one_hot(choice, self.space.levels)), (logits, choice)


_HEADS = {"independent": _Independent, "autoregressive": _Autoregressive}

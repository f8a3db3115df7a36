"""What predicts the choices of each op, of a policy over mutant distributions (REGAL 3.3)."""

from collections.abc import Callable
from typing import Literal

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp

from regal_jax.policies.networks.message_passing import MLP
from regal_jax.policies.regal.beta_mutants import ActionSpace

Head = Literal["independent", "autoregressive"]

NewEncoder = Callable[[], nn.Module]
"""Makes a module: PolicyInputs -> op representations float32[O, size]."""


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


HEADS = {"independent": _Independent, "autoregressive": _Autoregressive}

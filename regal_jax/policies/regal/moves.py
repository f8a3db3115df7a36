"""REGAL as a learned mutation: what to change of the best schedule so far (not in the paper).

The published policy looks once, at the graph, and chooses among a few Beta distributions
(``beta_mutants``). This one looks at a schedule of the graph and says how likely every op is to
leave its device, for which other one, and to move in the order, and how far: mutants are neighbours
of good schedules, changed where change is likely to help. It serves any number of devices.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp

from regal_jax import registry
from regal_jax.environments.placement.chromosome import Change
from regal_jax.policies.networks.message_passing import MLP, MessagePassing
from regal_jax.policies.regal.schedule_features import ScheduleInputs

Params = Any

SCALES = -4.0, 2.0
"""Least and largest logarithm of ``Moves.scale``."""
EDGE_OF_ODDS = 1e-6
"""Priorities are cut off so far from 0 and 1 before their log-odds are taken."""
MOST = 0.5
"""Largest probability that an op moves, of ``constant_moves``."""


@dataclasses.dataclass(frozen=True)
class MovesConfig:
    """A policy's network, and the distribution that it begins as.

    Attributes:
      size: of node and edge states. rounds: of message passing.
      moved, reordered, scale: see ``constant_moves``.
    """

    size: int = 32
    rounds: int = 6
    moved: float = 4.0
    reordered: float = 4.0
    scale: float = 0.2


@chex.dataclass(frozen=True)
class Moves:
    """A distribution of mutants of one schedule.

    Every op goes to device d with probability ``exp(log_share)[d]``, by itself. Its priority stays
    or moves; then it has normal log-odds, as nearly have those of a Beta distribution. A copy moves
    along with the tensor's first reader.

    Attributes:
      log_share: float32[O, D]. odds: float32[O], log-odds that an op's priority moves.
      shift, scale: float32[O], mean and standard deviation of how far the log-odds of the priority
        then move.
    """

    log_share: chex.Array
    odds: chex.Array
    shift: chex.Array
    scale: chex.Array


class Drawn(NamedTuple):
    """Changes: which ops leave their device bool[count, O], devices int32[count, O], which
    priorities move bool[count, O], and by how much their log-odds do float32[count, O]."""

    leaves: jax.Array
    device: jax.Array
    reordered: jax.Array
    change: jax.Array


class MovesPolicy(NamedTuple):
    """Pure functions of one graph's ScheduleInputs.

    Attributes:
      init: (key, inputs) -> params. moves: (params, inputs) -> Moves.
    """

    init: Callable[[chex.PRNGKey, ScheduleInputs], Params]
    moves: Callable[[Params, ScheduleInputs], Moves]


@registry.policy("regal_moves", MovesConfig)
def moves_policy(config: MovesConfig) -> MovesPolicy:
    """The policy of a configuration; a fresh one has the same distribution for every op."""
    module = _Network(config)
    return MovesPolicy(module.init, module.apply)  # type: ignore[arg-type]


def fresh(config: MovesConfig, inputs: ScheduleInputs) -> Moves:
    """What a policy begins as, and is held against."""
    return constant_moves(inputs, config.moved, config.reordered, config.scale)


def constant_moves(inputs: ScheduleInputs, moved: float, reordered: float, scale: float) -> Moves:
    """The same for every op: of each mutant ``moved`` ops go to other devices and the priorities of
    ``reordered`` ops move, on average, by ``scale``."""
    num_ops, num_devices = inputs.devices.shape[:2]
    real = jnp.maximum(jnp.sum(inputs.real), 1)
    other = jnp.minimum(moved / real, MOST) / max(num_devices - 1, 1)
    here = jax.nn.one_hot(inputs.device, num_devices)
    share = jnp.where(here > 0, 1.0 - other * (num_devices - 1), other)
    often = jnp.minimum(reordered / real, MOST)
    return Moves(
        log_share=jnp.log(share),
        odds=jnp.full(num_ops, jnp.log(often) - jnp.log1p(-often)),
        shift=jnp.zeros(num_ops),
        scale=jnp.full(num_ops, scale, jnp.float32),
    )


def mutate(moves: Moves, inputs: ScheduleInputs) -> Change:
    """Changed copies of chromosomes, which may be of other schedules than the one looked at: an op
    moves as often as from there, and anywhere but where it is."""
    num_ops, num_devices = inputs.devices.shape[:2]

    def change(key: chex.PRNGKey, parents: jax.Array) -> jax.Array:
        affinity = parents[:, : num_ops * num_devices].reshape(-1, num_ops, num_devices)
        return changed(parents, draw(key, moves, inputs, jnp.argmax(affinity, axis=2)), inputs)

    return change


def draw(key: chex.PRNGKey, moves: Moves, inputs: ScheduleInputs, device: jax.Array) -> Drawn:
    """Changes of parents int32[count, O], by where they have the ops."""
    which_key, where_key, order_key, far_key = jax.random.split(key, 4)
    stays = jnp.take_along_axis(moves.log_share, inputs.device[:, None], axis=1)[:, 0]
    leaves = jax.random.uniform(which_key, device.shape) >= jnp.exp(stays)
    leaves &= inputs.real & (inputs.devices.shape[1] > 1)
    elsewhere = _elsewhere(where_key, moves, device)
    reordered = jax.random.bernoulli(order_key, jax.nn.sigmoid(moves.odds), device.shape)
    reordered &= inputs.real
    far = moves.shift + moves.scale * jax.random.normal(far_key, device.shape)
    there = jnp.where(leaves, elsewhere, device)
    return Drawn(leaves, there, reordered, jnp.where(reordered, far, 0.0))


def changed(parents: jax.Array, drawn: Drawn, inputs: ScheduleInputs) -> jax.Array:
    """float32[count, genes]: parents with changes; what doesn't change keeps its genes."""
    num_ops, num_devices = inputs.devices.shape[:2]
    affinity = parents[:, : num_ops * num_devices].reshape(-1, num_ops, num_devices)
    there = jax.nn.one_hot(drawn.device, num_devices, dtype=jnp.float32)
    affinity = jnp.where(drawn.leaves[..., None], there, affinity)
    of_reader = jnp.take(drawn.change, inputs.reader, axis=1, mode="fill", fill_value=0.0)
    change = jnp.concatenate([drawn.change, jnp.repeat(of_reader, num_devices, axis=1)], axis=1)
    priority = parents[:, num_ops * num_devices :]
    cut = jnp.clip(priority, EDGE_OF_ODDS, 1.0 - EDGE_OF_ODDS)
    moved = jax.nn.sigmoid(jnp.log(cut) - jnp.log1p(-cut) + change)
    priority = jnp.where(change == 0.0, priority, moved)
    return jnp.concatenate([affinity.reshape(-1, num_ops * num_devices), priority], axis=1)


def chromosome(inputs: ScheduleInputs) -> jax.Array:
    """float32[genes] of the schedule that was looked at."""
    return jnp.concatenate(
        [jnp.ravel(jax.nn.one_hot(inputs.device, inputs.devices.shape[1])), inputs.priority]
    )


def log_prob(moves: Moves, drawn: Drawn, inputs: ScheduleInputs) -> jax.Array:
    """float[count]: log-density of each change of the schedule that was looked at."""
    chosen = jnp.take_along_axis(moves.log_share[None], drawn.device[..., None], axis=2)[..., 0]
    normal = jax.scipy.stats.norm.logpdf(drawn.change, moves.shift, moves.scale)
    moved = jax.nn.log_sigmoid(moves.odds) + normal
    order = jnp.where(drawn.reordered, moved, jax.nn.log_sigmoid(-moves.odds))
    each = order + chosen if inputs.devices.shape[1] > 1 else order
    return jnp.sum(jnp.where(inputs.real, each, 0.0), axis=1)


def _elsewhere(key: chex.PRNGKey, moves: Moves, device: jax.Array) -> jax.Array:
    """int32[count, O]: another device than the given one; with one device, that."""
    num_devices = moves.log_share.shape[1]
    if num_devices <= 2:
        return num_devices - 1 - device
    here = jax.nn.one_hot(device, num_devices, dtype=bool)
    return jax.random.categorical(key, jnp.where(here, -jnp.inf, moves.log_share))


class _Network(nn.Module):
    """Message passing, then for each op what its state and the graph's mean state say."""

    config: MovesConfig

    @nn.compact
    def __call__(self, inputs: ScheduleInputs) -> Moves:
        config = self.config
        state = MessagePassing(config.size, config.rounds, normalise=True)(inputs)
        real = inputs.real[:, None]
        mean = jnp.sum(jnp.where(real, state, 0.0), axis=0) / jnp.maximum(jnp.sum(real), 1)
        state = jnp.concatenate([state, jnp.broadcast_to(mean, state.shape)], axis=1)
        shape = (*inputs.devices.shape[:2], state.shape[1])
        of_device = jnp.concatenate(
            [jnp.broadcast_to(state[:, None], shape), inputs.devices], axis=2
        )
        logits = MLP(config.size, 1, zero_last=True)(of_device)[..., 0]
        order = MLP(config.size, 3, zero_last=True)(state)
        begin = fresh(config, inputs)
        return Moves(
            log_share=jax.nn.log_softmax(begin.log_share + logits),
            odds=begin.odds + order[:, 0],
            shift=begin.scale * order[:, 1],
            scale=jnp.exp(jnp.clip(jnp.log(begin.scale) + order[:, 2], *SCALES)),
        )

"""Neighbours of chromosomes: a few ops on other devices, a few elsewhere in the order."""

import functools
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.environments.placement.chromosome import Change, num_genes
from regal_jax.environments.placement.problem import PlacementProblem

MOVED = 4.0
"""Ops of a neighbour on other devices, and ops elsewhere in the order, on average."""
SCALE = 0.2
"""Standard deviation of how far the log-odds of a priority move."""
MOST = 0.5
"""Largest probability that an op moves."""
EDGE_OF_ODDS = 1e-6
"""Priorities are cut off so far from 0 and 1 before their log-odds are taken."""


class Layout(NamedTuple):
    """What neighbours need to know of a padded graph.

    Attributes:
      real: bool[O], False for padding.
      reader: int32[T], the tensor's reader that is first in program order; O without any.
    """

    real: chex.Array
    reader: chex.Array


def layout(problem: PlacementProblem) -> Layout:
    """The layout of a problem's padded chromosomes."""
    graph, shape = problem.graph, problem.shape
    at = graph.position
    reader = np.full(shape.tensors, shape.ops, np.int32)
    tensor, ops = graph.consumers.row_of_value(), graph.consumers.values
    latest_first = np.argsort(-at[ops], kind="stable")
    reader[tensor[latest_first]] = ops[latest_first]
    return Layout(np.arange(shape.ops) < graph.num_ops, reader)


def neighbours(of: Layout) -> Change:
    """Changed copies of chromosomes. The priorities of a tensor's copies move with its reader's."""
    return functools.partial(_changed, of)


def _changed(of: Layout, key: chex.PRNGKey, parents: jax.Array) -> jax.Array:
    where_key, order_key = jax.random.split(key)
    num_ops, num_tensors = len(of.real), len(of.reader)
    devices = (parents.shape[1] - num_ops) // (num_ops + num_tensors)
    assert parents.shape[1] == num_genes(num_ops, num_tensors, devices)
    share = jnp.minimum(MOVED / jnp.maximum(jnp.sum(of.real), 1), MOST)
    affinity, priority = jnp.split(parents, [num_ops * devices], axis=1)
    affinity = _elsewhere(where_key, affinity.reshape(-1, num_ops, devices), share * of.real)
    change = _shifts(order_key, (len(parents), num_ops), share * of.real)
    of_reader = jnp.take(change, of.reader, axis=1, mode="fill", fill_value=0.0)
    change = jnp.concatenate([change, jnp.repeat(of_reader, devices, axis=1)], axis=1)
    return jnp.concatenate([affinity.reshape(len(parents), -1), _shifted(priority, change)], axis=1)


def _elsewhere(key, affinity: jax.Array, share: jax.Array) -> jax.Array:
    """float32[B, O, D]: some ops on another device, any of them with equal probability."""
    devices = affinity.shape[2]
    if devices == 1:
        return affinity
    which_key, device_key = jax.random.split(key)
    leaves = jax.random.bernoulli(which_key, share, affinity.shape[:2])
    steps = jax.random.randint(device_key, leaves.shape, 1, devices)
    device = (jnp.argmax(affinity, axis=2) + steps) % devices
    there = jax.nn.one_hot(device, devices, dtype=jnp.float32)
    return jnp.where(leaves[..., None], there, affinity)


def _shifts(key, shape: tuple[int, int], share: jax.Array) -> jax.Array:
    """float32[B, O]: how far log-odds move, 0 for most."""
    which_key, far_key = jax.random.split(key)
    moves = jax.random.bernoulli(which_key, share, shape)
    return jnp.where(moves, SCALE * jax.random.normal(far_key, shape), 0.0)


def _shifted(priority: jax.Array, change: jax.Array) -> jax.Array:
    """Priorities whose log-odds move; those that don't are the same to the bit."""
    cut = jnp.clip(priority, EDGE_OF_ODDS, 1.0 - EDGE_OF_ODDS)
    moved = jax.nn.sigmoid(jnp.log(cut) - jnp.log1p(-cut) + change)
    return jnp.where(change == 0.0, priority, moved)

"""All partial schedules of a small graph, and the actions that lead from one to the next."""

import functools
from typing import Any, NamedTuple

import jax
import numpy as np

from regal_jax.environments.construction import env
from regal_jax.environments.construction.env import ConstructionProblem, PartialSchedule
from regal_jax.errors import OptionError

MOST_STATES = 500_000
"""Of one number of ops: half a gigabyte for ten ops on four devices."""

BLOCK = 512
"""States that are looked at together, so that all numbers of them share compilations."""


class Level(NamedTuple):
    """All S states with equally many ops, and the A actions that lead to them.

    Attributes:
      states: the states, numpy arrays with S rows.
      parent: int64[A], the row of the level before that an action is taken in.
      op, device: int32[A], the action. child: int64[A], the row that it leads to.
    """

    states: PartialSchedule
    parent: np.ndarray
    op: np.ndarray
    device: np.ndarray
    child: np.ndarray


def levels(
    problem: ConstructionProblem,
    num_devices: int,
    *,
    symmetric: bool,
    most_states: int = MOST_STATES,
) -> list[Level]:
    """The states of 0, 1, ... ops; the last are the complete schedules.

    Args:
      symmetric: whether states that differ in the names of devices alone are one, see ``env``.

    Raises:
      OptionError: for more than ``most_states`` of a level.
    """
    first = jax.tree.map(lambda leaf: np.asarray(leaf)[None], env.empty(problem, num_devices))
    none = np.zeros(0, np.int64)
    found = [Level(first, none, none.astype(np.int32), none.astype(np.int32), none)]
    previous = np.full((1, len(problem.duration)), -2)
    for _ in range(int(problem.num_ops)):
        states = found[-1].states
        valid = in_blocks(functools.partial(_valid, problem, symmetric=symmetric), states)
        parent, op, device = np.nonzero(valid)
        if len(op) > num_devices * most_states:  # no state has more states before it than devices
            raise _too_many(most_states)
        after = _chains(states, previous[parent], parent, op, device, symmetric=symmetric)
        _, kept, child = np.unique(after, axis=0, return_index=True, return_inverse=True)
        if len(kept) > most_states:
            raise _too_many(most_states)
        actions = _rows(states, parent[kept]), op[kept], device[kept]
        states = in_blocks(functools.partial(_step, problem), actions)
        previous = after[kept, : previous.shape[1]]
        op, device = op.astype(np.int32), device.astype(np.int32)
        found.append(Level(states, parent, op, device, child.reshape(-1)))
    return found


def in_blocks(function: Any, rows: Any) -> Any:
    """What a jitted function gives for arrays of equally many rows, which it sees in blocks."""
    count = len(jax.tree.leaves(rows)[0])
    parts = []
    for begin in range(0, count, BLOCK):
        at = np.minimum(np.arange(begin, begin + BLOCK), count - 1)
        parts.append(jax.tree.map(np.asarray, function(_rows(rows, at))))
    return jax.tree.map(lambda *some: np.concatenate(some)[:count], *parts)


def _too_many(most_states: int) -> OptionError:
    return OptionError(f"the graph has more than {most_states} partial schedules of a size")


def _rows(tree: Any, at: np.ndarray) -> Any:
    return jax.tree.map(lambda leaf: leaf[at], tree)


def _chains(states, previous, parent, op, device, *, symmetric) -> np.ndarray:
    """int[A, ...], equal rows for equal states: by op the one before it on its device (-1 for a
    device's first, -2 for ops that aren't there), and then the devices, unless names don't count.
    """
    rows = np.arange(len(op))
    previous = previous.copy()
    previous[rows, op] = states.last[parent, device]
    if symmetric:
        return previous
    place = states.device[parent]
    place[rows, op] = device
    return np.concatenate([previous, place], axis=1)


@functools.partial(jax.jit, static_argnames="symmetric")
def _valid(problem: ConstructionProblem, states: PartialSchedule, *, symmetric: bool) -> jax.Array:
    """bool[S, O, D]."""

    def one(state):
        opened = env.openable(state, symmetric=symmetric)
        return env.ready(problem, state)[:, None] & opened

    return jax.vmap(one)(states)


@jax.jit
def _step(problem: ConstructionProblem, actions) -> PartialSchedule:
    return jax.vmap(functools.partial(env.step, problem))(*actions)

"""Compiled parts of environments whose schedules are made choice by choice: a small network's logit
of each op that could be next, and which one is drawn."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from regal_jax.native import random
from regal_jax.native.compilation import inlined

MOST = 64
"""Ops of a choice that are told apart; of more, some are left out."""


class Network(NamedTuple):
    """Two hidden layers with ReLU: float32[F, H], [H], [H, H], [H], [H]."""

    first: np.ndarray
    first_bias: np.ndarray
    second: np.ndarray
    second_bias: np.ndarray
    last: np.ndarray


def linear_network(weights: ArrayLike) -> Network:
    """The network whose logits are sums of the features with these weights [F]."""
    first = np.array(weights, np.float32)
    none, same = np.zeros(2, np.float32), np.eye(2, dtype=np.float32)
    signs = np.array([1.0, -1.0], np.float32)
    return Network(first[:, None] * signs, none, same, none, signs)


class Sight(NamedTuple):
    """Memory of one thread for looking at what is next."""

    rows: np.ndarray  # float32[MOST, F], what the ops look like
    hidden: np.ndarray  # float32[2, H]
    random: np.ndarray  # uint64[1]


def new_sight(features: int, size: int) -> Sight:
    """For rows of so many features, and networks of a size."""
    rows, hidden = np.empty((MOST, features), np.float32), np.empty((2, size), np.float32)
    return Sight(rows, hidden, np.empty(1, np.uint64))


@inlined
def draw(sight, network, count, temperature):
    """Which of the first rows has the largest logit, with Gumbel noise times a temperature, 0 for
    none; the first on ties."""
    best, largest = 0, -np.inf
    for at in range(count):
        logit = np.float64(_logit(sight.rows[at], sight.hidden, network))
        if temperature > 0.0:
            uniform = (random.below(sight.random, 2**31) + 0.5) / 2.0**31
            logit -= temperature * np.log(-np.log(uniform))
        if logit > largest:
            best, largest = at, logit
    return best


@inlined
def _logit(row, hidden, network):
    size, logit = len(network.last), np.float32(0.0)
    for to in range(size):
        hidden[0, to], hidden[1, to] = network.first_bias[to], network.second_bias[to]
    for feature in range(len(row)):
        for to in range(size):
            hidden[0, to] += row[feature] * network.first[feature, to]
    for of in range(size):
        if hidden[0, of] > 0.0:
            for to in range(size):
                hidden[1, to] += hidden[0, of] * network.second[of, to]
    for to in range(size):
        logit += max(hidden[1, to], np.float32(0.0)) * network.last[to]
    return logit

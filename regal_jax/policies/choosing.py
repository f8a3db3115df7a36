"""Schedules made choice by choice, by a network: which of the ops that could be next is (ours).

One-shot priority sampling and Topoformer say all priorities before anything is scheduled. Here a
small network reads what each choice looks like when it is made (``environments.sequencing.kernel``
and ``environments.ordering.kernel``). Logits are of each op alone; a softmax over those of a choice
makes them probabilities, so that those of whole schedules are exact.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from regal_jax import registry
from regal_jax.environments.choosing.kernel import Network
from regal_jax.environments.ordering import kernel as ordering
from regal_jax.environments.sequencing import kernel as sequencing


@dataclasses.dataclass(frozen=True)
class SequencingConfig:
    """A network that chooses among ops in conflict for a machine.

    Attributes:
      size: of its two hidden layers.
    """

    size: int = 64


@dataclasses.dataclass(frozen=True)
class NextOpConfig:
    """A network that chooses among ready ops of one device.

    Attributes:
      size: of its two hidden layers.
    """

    size: int = 64


class ChoosingPolicy(NamedTuple):
    """Pure functions.

    Attributes:
      init: key -> params.
      log_prob: (params, rows float32[K, F], count int[]) -> float32[K], of being next; those of
        rows from ``count`` on are minus infinity.
      network: params -> the network as compiled kernels read it.
    """

    init: Callable[[chex.PRNGKey], Any]
    log_prob: Callable[[Any, jax.Array, jax.Array], jax.Array]
    network: Callable[[Any], Network]


def choosing_policy(features: int, size: int) -> ChoosingPolicy:
    """A policy for rows of so many features, with hidden layers of a size."""

    def init(key: chex.PRNGKey) -> Any:
        first, second, last = jax.random.split(key, 3)
        he = jax.nn.initializers.he_normal()
        return {
            "first": he(first, (features, size)),
            "first_bias": jnp.zeros(size),
            "second": he(second, (size, size)),
            "second_bias": jnp.zeros(size),
            "last": he(last, (size, 1))[:, 0],
        }

    def log_prob(params: Any, rows: jax.Array, count: jax.Array) -> jax.Array:
        hidden = jax.nn.relu(rows @ params["first"] + params["first_bias"])
        hidden = jax.nn.relu(hidden @ params["second"] + params["second_bias"])
        real = jnp.arange(len(rows)) < count
        return jax.nn.log_softmax(jnp.where(real, hidden @ params["last"], -jnp.inf))

    def network(params: Any) -> Network:
        return Network(**{name: np.asarray(params[name], np.float32) for name in Network._fields})

    return ChoosingPolicy(init, log_prob, network)


@registry.policy("sequencing", SequencingConfig)
def sequencing_policy(config: SequencingConfig) -> ChoosingPolicy:
    """The policy of a configuration."""
    return choosing_policy(sequencing.FEATURES, config.size)


@registry.policy("next_op", NextOpConfig)
def next_op_policy(config: NextOpConfig) -> ChoosingPolicy:
    """The policy of a configuration."""
    return choosing_policy(ordering.FEATURES, config.size)

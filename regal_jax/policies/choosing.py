"""Schedules made choice by choice: which of the ops that could be next is (ours).

One-shot priority sampling and Topoformer say all priorities before anything is scheduled. Here a
small network, or a weighted sum, reads what each choice looks like when it is made
(``environments.sequencing.kernel`` and ``environments.ordering.kernel``). Logits are of each op
alone; a softmax over those of a choice makes them probabilities, so that those of whole schedules
are exact.
"""

import dataclasses
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from regal_jax import registry
from regal_jax.environments.choosing.kernel import Network, linear_network
from regal_jax.environments.ordering import kernel as ordering
from regal_jax.environments.sequencing import kernel as sequencing

RULE = MappingProxyType(
    {
        "net_growth": -1.25,
        "growth": -0.5,
        "shares": 0.6,
        "ready_pairs": 0.5,
        "raises": -0.3,
        "post_order": -1.0,
        "lpmf": -0.25,
        "oldest": -1.0,
        "behind": 0.25,
        "beside_last": 1.0,
    }
)
"""Of the ready ops the one after which, or after the best that waits for it alone, least is in use;
what comes first in a post-order of the graph, and goes on with what is begun. Which features, of
16, and their weights were chosen one by one, by the best of 16 samples on validation graphs: 20
layered, 20 real and 14 in four microbatches."""
NOISE = 0.8
"""Temperature at which that rule is sampled, chosen with them from 0.02 to 0.8."""


@dataclasses.dataclass(frozen=True)
class SequencingConfig:
    """A network that chooses among ops in conflict for a machine.

    Attributes:
      size: of its two hidden layers.
    """

    size: int = 64


@dataclasses.dataclass(frozen=True)
class NextOpConfig:
    """A weighted sum of features that chooses among ready ops of one device."""


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
        return _of_choice(hidden @ params["last"], count)

    def network(params: Any) -> Network:
        return Network(**{name: np.asarray(params[name], np.float32) for name in Network._fields})

    return ChoosingPolicy(init, log_prob, network)


@registry.policy("sequencing", SequencingConfig)
def sequencing_policy(config: SequencingConfig) -> ChoosingPolicy:
    """The policy of a configuration."""
    return choosing_policy(sequencing.FEATURES, config.size)


@registry.policy("next_op", NextOpConfig)
def next_op_policy(config: NextOpConfig) -> ChoosingPolicy:
    """Weights of features, those of RULE to begin with."""
    rule = jnp.array([RULE.get(name, 0.0) / NOISE for name in ordering.NAMES], jnp.float32)

    return ChoosingPolicy(
        init=lambda key: {"weights": rule},
        log_prob=lambda params, rows, count: _of_choice(rows @ params["weights"], count),
        network=lambda params: linear_network(params["weights"]),
    )


def _of_choice(logits: jax.Array, count: jax.Array) -> jax.Array:
    """Log-probabilities of the first ones."""
    return jax.nn.log_softmax(jnp.where(jnp.arange(len(logits)) < count, logits, -jnp.inf))

"""Sequencing by a network: of the ops in conflict for a machine, which one is next (ours).

One-shot priority sampling says all priorities before anything is scheduled. Here a small network
reads what each choice looks like when it is made (``environments.sequencing.kernel.NAMES``), among
it a bound of what the machine's other ops will need. Logits are of each op alone; a softmax over
the conflict makes them probabilities, so that those of whole schedules are exact.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from regal_jax import registry
from regal_jax.environments.sequencing.kernel import FEATURES, Network


@dataclasses.dataclass(frozen=True)
class SequencingConfig:
    """A policy's network.

    Attributes:
      size: of its two hidden layers.
    """

    size: int = 64


class SequencingPolicy(NamedTuple):
    """Pure functions.

    Attributes:
      init: key -> params.
      log_prob: (params, rows float32[K, FEATURES], count int[]) -> float32[K], of being next; those
        of rows from ``count`` on are minus infinity.
      network: params -> the network as compiled kernels read it.
    """

    init: Callable[[chex.PRNGKey], Any]
    log_prob: Callable[[Any, jax.Array, jax.Array], jax.Array]
    network: Callable[[Any], Network]


@registry.policy("sequencing", SequencingConfig)
def sequencing_policy(config: SequencingConfig) -> SequencingPolicy:
    """The policy of a configuration."""

    def init(key: chex.PRNGKey) -> Any:
        first, second, last = jax.random.split(key, 3)
        he = jax.nn.initializers.he_normal()
        return {
            "first": he(first, (FEATURES, config.size)),
            "first_bias": jnp.zeros(config.size),
            "second": he(second, (config.size, config.size)),
            "second_bias": jnp.zeros(config.size),
            "last": he(last, (config.size, 1))[:, 0],
        }

    def log_prob(params: Any, rows: jax.Array, count: jax.Array) -> jax.Array:
        hidden = jax.nn.relu(rows @ params["first"] + params["first_bias"])
        hidden = jax.nn.relu(hidden @ params["second"] + params["second_bias"])
        real = jnp.arange(len(rows)) < count
        return jax.nn.log_softmax(jnp.where(real, hidden @ params["last"], -jnp.inf))

    def network(params: Any) -> Network:
        return Network(**{name: np.asarray(params[name], np.float32) for name in Network._fields})

    return SequencingPolicy(init, log_prob, network)

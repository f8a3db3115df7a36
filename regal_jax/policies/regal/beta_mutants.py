"""Actions to distributions: quantised Beta distributions and elite biases (REGAL A.2).

Deviation: transfer priorities stay uniform, as the workshop paper says (its A.2); the later paper
is silent.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.environments.placement.chromosome import SampleMutants
from regal_jax.environments.placement.quantile_tables import beta_quantiles, sample_rows


class ActionSpace(NamedTuple):
    """Which distributions a policy chooses, and how finely.

    Attributes:
      levels: k of A.2; k = 2 gives the paper's 16 placement and 4 scheduling actions.
      placement: choose the Beta distribution of each op's affinity for each device.
      scheduling: choose that of each op's priority.
      elite_bias: choose each op's crossover probability (one for all genes of the op; the paper
        does not say which genes share one).
      num_devices: D.
    """

    levels: int = 2
    placement: bool = True
    scheduling: bool = True
    elite_bias: bool = False
    num_devices: int = 2

    @property
    def num_choices(self) -> int:
        """A: categorical choices a node makes, each among ``levels``."""
        pairs = self.num_devices * self.placement + self.scheduling
        return 2 * pairs + self.elite_bias


def dequantise(mean_level, variance_level, levels: int) -> tuple[np.ndarray, np.ndarray]:
    """(alpha, beta) of the Beta distribution that two integers in 0..k-1 stand for (A.2)."""
    mean = (np.asarray(mean_level) + 1) / (levels + 1)
    variance = mean * (1 - mean) * (np.asarray(variance_level) + 1) / (levels + 1)
    beta = mean * (1 - mean) ** 2 / variance - 1 + mean
    return beta * mean / (1 - mean), beta


def dequantise_elite_bias(level, levels: int):
    """Probability that a gene comes from the elite parent: 0.5 (1 + c / k) (A.2)."""
    return 0.5 * (1 + level / levels)


@functools.lru_cache(maxsize=16)
def quantile_table(levels: int) -> np.ndarray:
    """float32[k * k + 1, RESOLUTION + 1]: quantile functions of the Beta distributions.

    Row m * k + v belongs to levels (m, v); the last row is uniform.
    """
    mean_level, variance_level = np.divmod(np.arange(levels * levels), levels)
    alpha, beta = dequantise(mean_level, variance_level, levels)
    return beta_quantiles(np.append(alpha, 1.0), np.append(beta, 1.0))


def gene_rows(actions: jax.Array, space: ActionSpace, num_tensors: int) -> jax.Array:
    """int32[genes]: the table row of each gene, from actions int32[O, A].

    Transfer priorities stay uniform: distributions are learned for ops only (workshop paper, A.2).
    """
    uniform = space.levels**2
    num_ops = len(actions)
    pairs = actions[:, : 2 * (space.num_choices // 2)].reshape(num_ops, -1, 2)
    rows = pairs[..., 0] * space.levels + pairs[..., 1]
    affinity = jnp.full((num_ops, space.num_devices), uniform, jnp.int32)
    priority = jnp.full(num_ops, uniform, jnp.int32)
    if space.placement:
        affinity = rows[:, : space.num_devices]
    if space.scheduling:
        priority = rows[:, -1]
    transfers = jnp.full(num_tensors * space.num_devices, uniform, jnp.int32)
    return jnp.concatenate([jnp.ravel(affinity), priority, transfers]).astype(jnp.int32)


def gene_elite_bias(actions: jax.Array, space: ActionSpace, producer: jax.Array, default: float):
    """float32[genes]: rho of each gene; a transfer has that of its tensor's producer."""
    if not space.elite_bias:
        return default
    of_op = dequantise_elite_bias(actions[:, -1].astype(jnp.float32), space.levels)
    of_tensor = jnp.where(producer >= 0, of_op[producer], default)
    repeat = functools.partial(jnp.repeat, repeats=space.num_devices)
    return jnp.concatenate([repeat(of_op), of_op, repeat(of_tensor)])


def learned_mutants(
    actions: jax.Array, space: ActionSpace, num_tensors: int, pinned: jax.Array
) -> SampleMutants:
    """The chromosome generation distribution D that a policy's actions define."""
    rows = gene_rows(actions, space, num_tensors)
    table = jnp.asarray(quantile_table(space.levels))
    num_devices = space.num_devices
    return lambda key, count: pin(sample_rows(key, table, rows, count), pinned, num_devices)


def pin(chromosomes: jax.Array, op: jax.Array, num_devices: int) -> jax.Array:
    """Fixes an op's placement to device 0 in chromosomes [B, genes] (A.1: breaks the symmetry)."""
    affinity = jnp.zeros(num_devices).at[0].set(1.0)
    rows = jnp.broadcast_to(affinity, (len(chromosomes), num_devices))
    return jax.lax.dynamic_update_slice(chromosomes, rows, (0, op * num_devices))

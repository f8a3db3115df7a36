"""Sampling by tables of quantile functions: one uniform number, one gather, one interpolation."""

import chex
import jax
import jax.numpy as jnp
import numpy as np

RESOLUTION = 1024
"""Steps of a table; between two entries quantile functions are linear."""


def beta_quantiles(alpha: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """float32[R, RESOLUTION + 1]: quantile functions of R Beta distributions.

    The row of Beta(1, 1) is uniform: samples from it are the uniform numbers themselves, exactly.
    """
    from scipy import special

    quantile = np.linspace(0.0, 1.0, RESOLUTION + 1)
    rows = special.betaincinv(np.asarray(alpha)[:, None], np.asarray(beta)[:, None], quantile)
    return rows.astype(np.float32)


def sample_rows(key: chex.PRNGKey, table: jax.Array, rows: jax.Array, count: int) -> jax.Array:
    """float32[count, genes]: each gene from the distribution of its table row, int32[genes]."""
    position = jax.random.uniform(key, (count, len(rows))) * RESOLUTION
    below = position.astype(jnp.int32)
    start = rows * table.shape[1] + below
    flat = jnp.ravel(table)
    low, high = flat[start], flat[start + 1]
    return low + (high - low) * (position - below)

"""What REINFORCE takes costs, or rewards, relative to: those of other samples."""

import jax
import jax.numpy as jnp
import numpy as np


def leave_one_out(costs: jax.Array) -> jax.Array:
    """float[B, S]: the mean of the other samples of each graph, an unbiased baseline."""
    return (jnp.sum(costs, axis=1, keepdims=True) - costs) / (costs.shape[1] - 1)


def standardised(costs: np.ndarray, epsilon: float) -> np.ndarray:
    """float64[N]: eq. 13 of one_shot_priority_sampling; the deviation is that of the samples
    themselves (over N, not N - 1)."""
    return (costs - costs.mean()) / max(costs.std(), epsilon)

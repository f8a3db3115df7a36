"""Random rankings of ops by their logits: the Plackett-Luce distribution.

Ops are drawn one after the other without replacement, with odds of exp(logit) among those that are
left (one_shot_priority_sampling eq. 10). Adding Gumbel noise to the logits and sorting does that at
once (eq. 7; Kool, van Hoof and Welling 2019, "Stochastic beams and where to find them").
"""

import jax
import jax.numpy as jnp
import numpy as np

_NEVER = -1e30


def log_prob(logits: jax.Array, rankings: jax.Array, num_ops: jax.Array | int) -> jax.Array:
    """float[...]: log-probabilities of rankings (eq. 10).

    The ops left at a place are those ranked from there on: one sum from the last place to the
    first, of logarithms, so that no logit is too far from another.

    Args:
      logits: float[O].
      rankings: int32[..., O], ops, the first drawn first. Padding comes last, and doesn't count.
      num_ops: int32[], without padding.
    """
    place = jnp.arange(len(logits))
    in_order = jnp.moveaxis(logits[rankings], -1, 0)
    real = (place < num_ops).reshape(-1, *[1] * (in_order.ndim - 1))
    in_order = jnp.where(real, in_order, _NEVER)

    # A loop over the places: on CPUs eight times as fast as an associative scan, and with fewer
    # numbers to keep for the gradient.
    def extend(left, logit):
        left = jnp.logaddexp(left, logit)
        return left, left

    nothing = jnp.full(in_order.shape[1:], _NEVER, in_order.dtype)
    left = jax.lax.scan(extend, nothing, in_order, reverse=True)[1]
    return jnp.sum(jnp.where(real, in_order - left, 0.0), axis=0)


def draw(rng: np.random.Generator, logits: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Perturbed logits float32[count, O], and the rankings int32[count, O] that they make.

    ``logits`` is float[O], without padding.
    """
    perturbed = (logits + rng.gumbel(size=(count, len(logits)))).astype(np.float32)
    return perturbed, ranked(perturbed)


def ranked(priorities: np.ndarray) -> np.ndarray:
    """int32[S, O]: ops by decreasing priority float32[S, O], the lower op first on ties."""
    ranking = np.argsort(-priorities, axis=1)  # not stable, but a third of the time
    ordered = np.take_along_axis(priorities, ranking, axis=1)
    tied = np.any(ordered[:, 1:] == ordered[:, :-1], axis=1)
    ranking[tied] = np.argsort(-priorities[tied], axis=1, kind="stable")
    return ranking.astype(np.int32)

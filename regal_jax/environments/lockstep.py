"""Loops of schedules that are built side by side, each until its own end, without copies.

``jax.lax.while_loop`` under ``vmap`` copies the whole state in every round, to keep that of those
that are done. Where a round changes nothing of theirs anyhow, that isn't needed.
"""

import jax
import jax.numpy as jnp

EDGES_AT_ONCE = 8
"""Edges out of a step that one round walks; a step with more takes more rounds."""


@jax.custom_batching.custom_vmap
def anywhere(flag: jax.Array) -> jax.Array:
    """bool[]: the flag; under ``vmap``, whether it is set in any element: one answer for all."""
    return flag


@anywhere.def_vmap
def _(axis_size, in_batched, flag):
    return anywhere(jnp.any(flag)), False

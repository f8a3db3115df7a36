"""Small JAX programs whose memory depends on the order, and modules written by hand."""

import jax
import jax.numpy as jnp

from regal_jax.compiler.xla.buffers import taken_over
from regal_jax.graphs.importers.xla.text import parse_module

BRANCHES = 8
WEIGHTS = [jax.ShapeDtypeStruct((64, 64), jnp.float32)] * BRANCHES
ROWS = jax.ShapeDtypeStruct((512, 64), jnp.float32)


def branches(weights, x):
    """Gradients of a sum of branches: one after the other is best, side by side is worst."""
    return jax.value_and_grad(lambda ws: sum(jnp.tanh(x @ w).sum() for w in ws))(weights)


def arrays(shapes, seed=0):
    leaves, tree = jax.tree.flatten(shapes)
    keys = jax.random.split(jax.random.key(seed), len(leaves))
    return tree.unflatten(
        [jax.random.normal(key, x.shape, x.dtype) for key, x in zip(keys, leaves, strict=True)]
    )


def lowered_branches():
    return jax.jit(branches).lower(WEIGHTS, ROWS)


def looped(weights, x):
    """A loop whose body has branches."""

    def body(carry, _):
        return carry + sum(jnp.tanh(carry @ w).sum(1, keepdims=True) for w in weights), None

    return jax.lax.scan(body, x, length=3)[0]


def donating(state, x):
    """An update of a donated state."""
    return jnp.sin(state) + x.sum(), jnp.cos(x @ x.T)


def in_memory(allocation, *kinds):
    """Groups of buffers in one memory, of what they are at last."""
    return [group for group in taken_over(allocation.parts) if group[-1].kind in kinds]


def writers(group):
    return [name for buffer in group for _, name in buffer.writers]


def live_bytes(allocation, *kinds):
    """Bytes in use at every step."""
    groups = in_memory(allocation, *kinds)
    return [
        sum(group[0].num_bytes for group in groups if group[0].first <= step <= group[-1].last)
        for step in range(len(allocation.steps))
    ]


def hand_made(body, *, others="", header=""):
    """A scheduled module with this entry."""
    return parse_module(
        f"HloModule m, is_scheduled=true{header}\n{others}\nENTRY e {{\n{body}\n}}\n"
    )

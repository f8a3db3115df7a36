"""Functions whose ops are hard to find again in a jaxpr, with arguments to run them on.

``FUNCTIONS[name]()`` gives ``(fn, args)``.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

TABLE = np.arange(8, dtype=np.float32)


def data(*shape: int, seed: int = 0) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape)


def mlp_gradient():
    """Calls inside calls; one jitted layer twice, whose variables therefore come twice."""
    layer = jax.jit(lambda w, x: jax.nn.relu(x @ w) + 1)

    def loss(weights, x):
        hidden = jax.checkpoint(layer)(weights[1], layer(weights[0], x))
        return jnp.mean(jax.nn.softmax(hidden) ** 2) + jax.nn.silu(hidden).sum()

    weights = [data(6, 6, seed=1), data(6, 6, seed=2)]
    return jax.jit(jax.value_and_grad(loss)), (weights, data(4, 6))


def branches():
    """Parallel branches: a scan, a cond, a while loop and constants, joined at the end."""

    def fn(x, flag):
        total, rows = jax.lax.scan(lambda c, row: (c + row, c * row), jnp.zeros(8), x)
        chosen = jax.lax.cond(flag > 0, lambda a: a * TABLE, lambda a: a - TABLE, x)
        looped = jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2.0), (0, x))
        x.sum()  # dead
        return {"rows": rows * TABLE, "joined": total + chosen + looped[1]}

    return fn, (data(4, 8), jnp.int32(1))


def scatters():
    """Updates that look like in place, while the old value is still read, and sorting."""

    def fn(x, indices):
        y = x.at[indices].set(0.0)
        z = jax.lax.dynamic_update_slice(y, -x[:2], (1, 0))
        first, order = jax.lax.top_k(z.at[0].add(y[0]), 2)
        return x + z, order, jnp.linalg.solve(x @ x.T + jnp.eye(4), first)

    return fn, (data(4, 8), jnp.array([1, 3]))


def renames():
    """Zero-copy equations in chains, of arguments and literals; keys; results that are no ops'."""

    def fn(x, scale, key):
        y, other = jax.lax.optimization_barrier((jnp.sin(x).reshape(8, 4)[None], x * scale))
        first, second = jax.random.split(key)
        noise = jax.random.uniform(first, (4,)) + jnp.broadcast_to(jnp.float32(2.0), (1, 1))
        bits = jax.lax.bitcast_convert_type(jax.lax.stop_gradient(y), jnp.int32)
        flat = x.reshape(-1)
        extra = (x.T, -0.0 * scale, 0.0 * scale, second, None, 2.5, TABLE[None])
        return bits + 1, y.squeeze(0) + noise, other, flat, flat + 1, extra

    return fn, (data(4, 8), 3.0, jax.random.key(7))


FUNCTIONS: Mapping[str, Callable[[], tuple[Callable[..., Any], tuple]]] = MappingProxyType(
    {fn.__name__: fn for fn in (mlp_gradient, branches, scatters, renames)}
)


def assert_same(result: Any, expected: Any) -> None:
    """The same pytree of the same numbers, up to the rounding that fusion changes."""
    assert jax.tree.structure(result) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
        assert jnp.shape(one) == jnp.shape(other)
        assert jnp.result_type(one) == jnp.result_type(other)
        if jnp.issubdtype(jnp.result_type(one), jax.dtypes.prng_key):
            one, other = jax.random.key_data(one), jax.random.key_data(other)
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)

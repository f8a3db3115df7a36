"""The table of ``docs/jit_features.md``: every option and use of ``jax.jit`` under ``rj.jit``."""

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import regal_jax as rj
from regal_jax.compiler.xla.jit import RescheduleWarning

PAGE = Path(__file__).parents[3] / "docs" / "jit_features.md"
OWN = "an order of its own, the same bits"
X = jnp.arange(6.0).reshape(2, 3)


class Feature(NamedTuple):
    """What is done with a ``jit``, and whose order it is then run in: OWN, or jax.jit's and why."""

    use: Callable[[Any], Any]
    order: str = OWN


def f(x, n=2):
    return jnp.tanh(x) * n + x.sum()


@jax.custom_vjp
def clipped(x):
    return x


clipped.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -1, 1),))


class Scale:
    """A method is jitted."""

    def __init__(self, jit):
        self.call = jit(lambda x: f(x, 3))


def sharding():
    return NamedSharding(Mesh(np.array(jax.devices("cpu")[:1]), "d"), PartitionSpec("d"))


INSIDE = "jax.jit's: it has no program of its own inside another transformation"
EFFECTS = "jax.jit's: a new order could change its side effects"
DEBUG = "jax.jit's: JAX runs op by op"

FEATURES = {
    "static_argnums": Feature(lambda jit: jit(f, static_argnums=1)(X, 3)),
    "static_argnames": Feature(lambda jit: jit(f, static_argnames="n")(X, n=3)),
    "donate_argnums": Feature(lambda jit: jit(f, donate_argnums=0)(X + 0)),
    "donate_argnames": Feature(lambda jit: jit(f, donate_argnames="x")(x=X + 0)),
    "keep_unused": Feature(lambda jit: jit(lambda x, y: f(x), keep_unused=True)(X, X)),
    "inline": Feature(lambda jit: jit(f, inline=True)(X)),
    "in_shardings": Feature(lambda jit: jit(f, in_shardings=(sharding(), None))(X, 2)),
    "out_shardings": Feature(lambda jit: jit(f, out_shardings=sharding())(X)),
    "compiler_options": Feature(
        lambda jit: jit(f, compiler_options={"xla_cpu_enable_fast_math": False})(X)
    ),
    "default arguments, keywords": Feature(lambda jit: jit(f)(x=X)),
    "pytrees": Feature(lambda jit: jit(lambda d: {"y": (f(d["a"]), [d["b"]])})({"a": X, "b": 1})),
    "no results": Feature(lambda jit: jit(lambda x: ())(X)),
    "empty arrays": Feature(lambda jit: jit(f)(X[:0])),
    "Python and NumPy numbers (weak types)": Feature(
        lambda jit: (jit(f)(1.5), jit(f)(np.float32(1.5)), jit(f)(np.arange(3)))
    ),
    "random keys": Feature(
        lambda jit: jit(lambda k: jax.random.normal(k, (3,)))(jax.random.key(0))
    ),
    "functools.partial": Feature(lambda jit: jit(functools.partial(f, n=4))(X)),
    "methods": Feature(lambda jit: Scale(jit).call(X)),
    "grad inside": Feature(lambda jit: jit(jax.grad(lambda x: f(x).sum()))(X)),
    "vmap inside": Feature(lambda jit: jit(jax.vmap(f))(X)),
    "scan, cond and while_loop inside": Feature(
        lambda jit: jit(
            lambda x: jax.lax.cond(
                x.sum() > 0,
                lambda: jax.lax.scan(lambda c, y: (c + f(y), y), x[0], x),
                lambda: (x[0], x),
            )
        )(X)
    ),
    "custom_vjp and checkpoint inside": Feature(
        lambda jit: jit(jax.grad(lambda x: jax.checkpoint(f)(clipped(x)).sum()))(X)
    ),
    "another jit inside": Feature(lambda jit: jit(lambda x: jax.jit(f)(x) + 1)(X)),
    "pure_callback": Feature(
        lambda jit: jit(
            lambda x: jax.pure_callback(np.tanh, jax.ShapeDtypeStruct((2, 3), x.dtype), x)
        )(X)
    ),
    "lower(...).compile()": Feature(lambda jit: jit(f).lower(X).compile()(X)),
    "lower(...) of shapes": Feature(
        lambda jit: jit(f).lower(jax.ShapeDtypeStruct((2, 3), jnp.float32)).compile()(X)
    ),
    "eval_shape": Feature(lambda jit: np.zeros(jit(f).eval_shape(X).shape), "not run"),
    "trace": Feature(lambda jit: np.zeros(len(jit(f).trace(X).jaxpr.eqns)), "not run"),
    "clear_cache, calls again": Feature(lambda jit: again(jit(f))),
    "arrays on a mesh": Feature(lambda jit: jit(f)(jax.device_put(X, sharding()))),
    "enable_x64": Feature(lambda jit: within(jax.enable_x64(True), jit(f))),
    "default_matmul_precision": Feature(
        lambda jit: within(jax.default_matmul_precision("bfloat16"), jit(lambda x: x @ x.T))
    ),
    "disable_jit": Feature(lambda jit: within(jax.disable_jit(), jit(f)), DEBUG),
    "debug_nans": Feature(lambda jit: within(jax.debug_nans(True), jit(f)), DEBUG),
    "inside grad": Feature(lambda jit: jax.grad(lambda x: jit(f)(x).sum())(X), INSIDE),
    "inside vmap": Feature(lambda jit: jax.vmap(jit(f))(X), INSIDE),
    "inside another jit": Feature(lambda jit: jax.jit(lambda x: jit(f)(x))(X), INSIDE),
    "jax.debug.print": Feature(
        lambda jit: jit(lambda x: (jax.debug.print("{}", x.sum()), f(x))[1])(X), EFFECTS
    ),
    "io_callback": Feature(
        lambda jit: jit(lambda x: io_callback(np.tanh, jax.ShapeDtypeStruct((), x.dtype), x.sum()))(
            X
        ),
        EFFECTS,
    ),
}


def again(step):
    first = step(X)
    step.clear_cache()
    return first, step(X)


def within(context, step):
    with context:
        return step(X)


@pytest.mark.parametrize("name", FEATURES)
def test_values_are_jaxs(name):
    feature, made = FEATURES[name], []

    def jit(function, **options):
        made.append(rj.jit(function, methods=("lpmf",), cache=None, **options))
        return made[-1]

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found, expected = feature.use(jit), feature.use(jax.jit)
    ours = [str(one.message) for one in said if one.category is RescheduleWarning]
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(one, other)
        assert getattr(one, "weak_type", None) == getattr(other, "weak_type", None)
    decided = any(one.reports for one in made)
    assert decided == (feature.order == OWN), ours
    assert bool(ours) == (feature.order in (INSIDE, EFFECTS)), ours


def test_the_page_has_a_row_for_each():
    rows = [f"| {name} | {feature.order} |" for name, feature in FEATURES.items()]
    text = PAGE.read_text()
    assert text[text.index("| what") :].splitlines()[2:] == rows

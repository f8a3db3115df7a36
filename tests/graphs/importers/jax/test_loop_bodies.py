import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from regal_jax.graphs.importers.jax.flat_program import flat_jaxpr
from regal_jax.graphs.importers.jax.loop_bodies import loops_of, with_body


def sums(x):
    def add(total, row):
        inner, squares = jax.lax.scan(lambda c, v: (c + v, v * v), total, row)
        return inner, squares.sum()

    return jax.lax.scan(add, 0.0, 2 * x)


X = jnp.arange(6.0).reshape(2, 3)
PROGRAM = flat_jaxpr(jax.make_jaxpr(sums)(X))


def test_the_body_of_a_loop_in_a_loop_is_another():
    (outer,) = loops_of(PROGRAM)
    (inner,) = loops_of(outer.body)
    assert (outer.scan.length, inner.scan.length) == (2, 3)
    run = with_body(PROGRAM, (outer, inner), lambda carry, value: [carry - value, value])
    total, squares = run(X)
    assert total == -2 * X.sum()
    np.testing.assert_array_equal(squares, 2 * X.sum(1))


def test_its_own_body_gives_the_same():
    (outer,) = loops_of(PROGRAM)
    body = jaxpr_as_fun(outer.scan.body)
    for made, expected in zip(with_body(PROGRAM, (outer,), body)(X), sums(X), strict=True):
        np.testing.assert_array_equal(made, expected)


def test_without_loops_the_body_is_all():
    (made,) = with_body(PROGRAM, (), lambda x: [x + 1])(X)
    np.testing.assert_array_equal(made, X + 1)

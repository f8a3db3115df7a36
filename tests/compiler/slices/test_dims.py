"""Dimensions of equations: slices of the inputs make slices of the outputs, or what is summed up
of all is the whole."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Literal

from regal_jax.compiler.slices.cut import Cut
from regal_jax.compiler.slices.dims import dims_of, sliced
from regal_jax.compiler.slices.indexed import of_slice
from regal_jax.graphs.importers.jax.flat_program import run_equation

TURNS = 2
KEY = jax.random.key(0)


def of(*shape, dtype=jnp.float32):
    return jax.random.uniform(jax.random.fold_in(KEY, sum(shape)), shape, minval=0.5).astype(dtype)


def convolved(x, w, strides=(1, 1), groups=1):
    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(
        x, w, strides, "SAME", dimension_numbers=numbers, feature_group_count=groups
    )


def pooled(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def averaged(x):
    return jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "SAME")


def gradient(fn, which=0):
    return jax.grad(lambda *args: jnp.sum(jnp.sin(fn(*args))), which)


def picked(x, at):
    return jnp.take_along_axis(x, at, -1)


_seen_as = jax.lax.bitcast_convert_type
IMAGE, KERNEL = of(4, 8, 8, 6), of(3, 3, 6, 4)
AT = jnp.arange(32).reshape(4, 4, 2) % 6
CASES = {
    "elementwise": (lambda x, y: jnp.where(x > y, x * y, 2.0 - x), of(4, 6), of(4, 6)),
    "axes of one": (lambda x: x - x.sum(1, keepdims=True), of(4, 6, 2)),
    "power": (lambda x: x**3 + jnp.clip(x, 0.6, 0.9), of(4, 6)),
    "broadcast": (lambda x: jnp.broadcast_to(x[:, None], (6, 4, 8)) * 1.5, of(6, 8)),
    "reshape": (lambda x: x.reshape(4, 2, 3, 2, 4), of(8, 6, 4)),
    "merged": (lambda x: jnp.tanh(x.reshape(24, 4)), of(4, 6, 4)),
    "other types": (
        lambda x: _seen_as(_seen_as(x, "uint16"), "float32") + _seen_as(x, "int32"),
        of(4, 6, 2),
    ),
    "squeeze": (lambda x: jnp.squeeze(x, 1), of(4, 1, 6)),
    "transpose": (lambda x: x.transpose(2, 0, 1), of(4, 6, 8)),
    "iota": (lambda x: x + jax.lax.broadcasted_iota(jnp.float32, (4, 6), 1), of(4, 6)),
    "slice": (lambda x: x[:, 1:4, ::2], of(4, 6, 8)),
    "at a place": (lambda x, i: jax.lax.dynamic_slice(x, (0, i, 0), (4, 2, 8)), of(4, 6, 8), 3),
    "put at a place": (
        lambda x, y, i: jax.lax.dynamic_update_slice(x, y, (0, i, i)),
        *(of(4, 6, 8), of(4, 2, 8), 3),
    ),
    "pad": (lambda x: jnp.pad(x, ((0, 0), (1, 2))), of(4, 6)),
    "concatenate": (lambda x, y: jnp.concatenate([x, y], 1), of(4, 6), of(4, 2)),
    "split": (lambda x: tuple(jnp.split(x, 2, 1)), of(4, 6)),
    "rev": (lambda x: x[:, ::-1], of(4, 6)),
    "sort": (lambda x, y: jax.lax.sort((x, y), dimension=1, num_keys=1), of(4, 6), of(4, 6)),
    "top_k": (lambda x: jax.lax.top_k(x, 2), of(4, 6)),
    "cumsum": (lambda x: jnp.cumsum(x, 1) + jax.lax.cummax(x, 0), of(4, 6)),
    "sums": (lambda x: (x.sum(0), x.max(1), x.min(), x.prod(1), jnp.argmax(x, 1)), of(4, 6)),
    "nearest": (lambda x: jax.lax.approx_max_k(x, 2), of(4, 6)),
    "largest at places": (lambda x, at: x.at[:, at].max(2.0), of(4, 6), AT[0, 0]),
    "any": (lambda x: jnp.any(x > 0.7, 1), of(4, 6)),
    "product": (lambda x, y: x @ y, of(4, 6), of(6, 8)),
    "batches": (lambda x, y: jnp.einsum("bik,bjk->bij", x, y), of(4, 6, 8), of(4, 2, 8)),
    "convolution": (convolved, IMAGE, KERNEL),
    "strides": (lambda x, w: convolved(x, w, (2, 2)), IMAGE, KERNEL),
    "groups": (lambda x, w: convolved(x, w, groups=2), IMAGE, of(3, 3, 3, 4)),
    "its gradient": (gradient(convolved), IMAGE, KERNEL),
    "weights' gradient": (gradient(convolved, 1), IMAGE, KERNEL),
    "in groups": (gradient(lambda x, w: convolved(x, w, groups=2), 1), IMAGE, of(3, 3, 3, 4)),
    "max pooling": (pooled, IMAGE),
    "gradient of pooling": (gradient(pooled), IMAGE),
    "average pooling": (gradient(averaged), IMAGE),
    "labels": (picked, of(4, 4, 6), AT),
    "gradient of labels": (gradient(picked), of(4, 4, 6), AT),
    "embedding": (lambda x, at: x[at], of(6, 8), AT),
    "gradient of an embedding": (gradient(lambda x, at: x[at]), of(6, 8), AT),
    "filled": (lambda x, at: x.at[at, at].get(mode="fill", fill_value=7), of(6, 8), AT + 2),
    "clipped": (lambda x, at: x.at[at, at].get(mode="clip"), of(6, 8), AT + 2),
    "dropped": (lambda x, at: x.at[:, at[0, 0]].set(9.0, mode="drop"), of(4, 6), AT + 5),
    "softmax": (gradient(lambda x: jax.nn.log_softmax(x)), of(4, 6)),
    "Fourier": (lambda x: jnp.fft.irfft2(jnp.fft.rfft2(x) * 2), of(4, 6, 8)),
    "factors": (
        lambda x: (*jnp.linalg.eigh(x), *jnp.linalg.svd(x), *jnp.linalg.qr(x), jnp.linalg.det(x)),
        of(4, 2, 2),
    ),
    "triangles": (
        lambda x, y: (
            jax.scipy.linalg.solve_triangular(x + 9 * jnp.eye(6), y),
            jax.lax.linalg.triangular_solve(x + 9 * jnp.eye(6), y[:, :, :6], left_side=False),
            jnp.linalg.cholesky(x @ x.mT + 9 * jnp.eye(6)),
        ),
        of(4, 6, 6),
        of(4, 6, 8),
    ),
    "attention": (gradient(jax.nn.dot_product_attention), *[of(2, 4, 2, 8)] * 3),
}


def equations(fn, args):
    """Of a program without calls, with what each reads."""
    closed = jax.make_jaxpr(fn)(*args)
    yield from inside(
        closed.jaxpr, dict(zip(closed.jaxpr.constvars, closed.consts, strict=False)), args
    )


def inside(jaxpr, known, args):
    known = known | dict(zip(jaxpr.invars, args, strict=True))
    for equation in jaxpr.eqns:
        read = [atom.val if isinstance(atom, Literal) else known[atom] for atom in equation.invars]
        inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
        if inner is not None:
            open_ = getattr(inner, "jaxpr", inner)
            constants = dict(zip(open_.constvars, getattr(inner, "consts", ()), strict=False))
            yield from inside(open_, constants, read)
        else:
            yield equation, read
        known |= zip(equation.outvars, run_equation(equation, read), strict=True)


def part(value, axis, turn):
    if axis is None:
        return value
    size = value.shape[axis] // TURNS
    return jax.lax.slice_in_dim(value, turn * size, (turn + 1) * size, axis=axis)


def of_turn(equation, dim, read, turn):
    parts = [part(value, axis, turn) for value, axis in zip(read, dim.inputs, strict=True)]
    if dim.coordinate is None:
        return run_equation(sliced(equation, dim, TURNS), parts)
    return of_slice(equation, dim.inputs[0], dim.coordinate, parts, Cut(TURNS, turn))


def whole(equation, dim, made):
    """Of what each turn made."""
    for axis, parts in zip(dim.outputs, zip(*made, strict=True), strict=True):
        if axis is None:
            yield {"add": sum, "max": lambda p: jnp.maximum(*p), "min": lambda p: jnp.minimum(*p)}[
                dim.combine
            ](parts)
        elif equation.primitive.name == "iota" and equation.params["dimension"] == axis:
            size = parts[0].shape[axis]
            yield jnp.concatenate([p + turn * size for turn, p in enumerate(parts)], axis)
        else:
            yield jnp.concatenate(parts, axis)


def is_divisible(equation, dim):
    values = zip((*equation.invars, *equation.outvars), (*dim.inputs, *dim.outputs), strict=True)
    sizes = [atom.aval.shape[axis] for atom, axis in values if axis is not None]
    return sizes and all(size % TURNS == 0 for size in sizes)


@pytest.mark.parametrize("case", CASES)
def test_slices_make_the_whole(case):
    fn, *args = CASES[case]
    looked_at = 0
    for equation, read in equations(fn, args):
        for dim in dims_of(equation):
            if not is_divisible(equation, dim):
                continue
            looked_at += 1
            made = [of_turn(equation, dim, read, turn) for turn in range(TURNS)]
            found = list(whole(equation, dim, made))
            for one, other in zip(found, run_equation(equation, read), strict=True):
                np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)
    assert looked_at


def names_of(fn, *args):
    return {
        equation.primitive.name: [
            (dim.inputs, dim.outputs, dim.combine) for dim in dims_of(equation)
        ]
        for equation, _ in equations(fn, args)
    }


def test_dimensions_of_a_product():
    found = names_of(lambda x, y: jnp.einsum("bik,bkj->bij", x, y), of(4, 6, 8), of(4, 8, 2))
    assert found["dot_general"] == [
        ((0, 0), (0,), ""),
        ((2, 1), (None,), "add"),
        ((1, None), (1,), ""),
        ((None, 2), (2,), ""),
    ]


def test_what_depends_on_all_along_an_axis_is_not_sliced_there():
    assert names_of(lambda x: jnp.sort(x, 1), of(4, 6))["sort"] == [((0,), (0,), "")]
    assert names_of(lambda x: jnp.cumsum(x, 0), of(4, 6))["cumsum"] == [((1,), (1,), "")]
    assert names_of(lambda x: x.prod(0), of(4, 6))["reduce_prod"] == [((1,), (0,), "")]


def test_random_keys_and_loops_are_not_sliced():
    found = names_of(lambda key: jax.random.split(key, 4), KEY)
    assert not any(found.values())
    loop = jax.make_jaxpr(lambda x: jax.lax.scan(lambda c, y: (c + y, c), 0.0, x))(of(4))
    assert [dims_of(equation) for equation in loop.jaxpr.eqns] == [[]]

"""Scans that keep less of each turn: the same gradients, fewer bytes, for any body."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

import regal_jax as rj
from regal_jax.compiler.barriers.emission import program_of
from regal_jax.compiler.recompute.loops import with_lean_loops
from tests.compiler.ways.test_fit import close

TURNS, ROWS, WIDTH = 6, 256, 16


def arrays(seed=0):
    random = np.random.default_rng(seed)
    make = lambda *shape: jnp.asarray(random.normal(0, 0.3, shape), jnp.float32)  # noqa: E731
    return (
        {"up": make(TURNS, WIDTH, 4 * WIDTH), "down": make(TURNS, 4 * WIDTH, WIDTH)},
        make(WIDTH),
        make(ROWS, WIDTH),
    )


def perceptron(x, w):
    return x + jnp.tanh(jnp.sin(x @ w["up"])) @ w["down"]


def in_turns(body, weights, scale, x, **options):
    return jax.lax.scan(lambda x, w: (body(x, w) * scale, None), x, weights, **options)[0]


def plain(weights, scale, x):
    return in_turns(perceptron, weights, scale, x).sum()


def backwards(weights, scale, x):
    return in_turns(perceptron, weights, scale, x, reverse=True, unroll=2).sum()


def with_calls(weights, scale, x):
    body = jax.jit(lambda x, w: x + jax.nn.softmax(jax.nn.gelu(x @ w["up"])) @ w["down"])
    return in_turns(body, weights, scale, x).sum()


def two_carries(weights, scale, x):
    def turn(carry, w):
        x, y, count = carry
        wide = jnp.cos(y @ w["up"])
        return (y * scale, x + wide @ w["down"], count + 1), (wide.sum(), x)

    (x, y, count), (sums, stack) = jax.lax.scan(turn, (x, jnp.sin(x), 0), weights)
    return (x * y).sum() / count + sums.sum() + (stack**2).sum()


def nested(weights, scale, x):
    def body(x, w):
        inner = lambda x, _: (jnp.sin(x) * scale, None)  # noqa: E731
        return perceptron(jax.lax.scan(inner, x, None, 3)[0], w)

    return in_turns(body, weights, scale, x).sum()


def one_after_another(weights, scale, x):
    return in_turns(perceptron, weights, scale, in_turns(perceptron, weights, scale, x)).sum()


def with_dropout(weights, scale, x):
    def body(x, given):
        key, w = given
        keep = jax.random.bernoulli(key, 0.5, (ROWS, 4 * WIDTH))
        return x * scale + jnp.where(keep, jnp.tanh(x @ w["up"]), 0) @ w["down"], None

    keys = jax.random.split(jax.random.key(0), TURNS)
    return jax.lax.scan(body, x, (keys, weights))[0].sum()


def checkpointed(weights, scale, x):
    return in_turns(jax.checkpoint(perceptron), weights, scale, x).sum()


LOSSES = (
    plain,
    backwards,
    with_calls,
    two_carries,
    nested,
    one_after_another,
    with_dropout,
    checkpointed,
)


@functools.cache
def versions(loss):
    traced = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2))).trace(*arrays())
    return traced, with_lean_loops(traced, program_of(traced))


def same(one, other):
    """But for what is lost where sums of large numbers are small."""
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * max(1, np.abs(b).max()))


def temporaries(traced):
    return traced.lower().compile().memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
def test_gradients_are_the_same(loss):
    traced, lean = versions(loss)
    given = jax.tree.leaves(arrays())
    expected = jaxpr_as_fun(traced.jaxpr)(*given)
    assert loss is checkpointed or lean
    for one in lean:
        assert one.jaxpr.out_avals == traced.jaxpr.out_avals
        same(jaxpr_as_fun(one.jaxpr)(*given), expected)


@pytest.mark.parametrize("loss", [plain, with_calls, two_carries, with_dropout])
def test_ever_less_is_kept(loss):
    traced, lean = versions(loss)
    needs = [temporaries(one) for one in (traced, *lean)]
    assert needs == sorted(needs, reverse=True)
    assert needs[-1] < 0.5 * needs[0]


def test_the_first_computes_no_product_again():
    def products(traced):
        return str(traced.jaxpr).count("dot_general[")

    traced, lean = versions(plain)
    assert products(lean[0]) == products(traced)
    assert products(lean[-1]) == products(traced) + 2


def test_gradients_that_are_added_up():
    """The pair is in the body of another loop."""

    def added_up(weights, scale, x):
        def add(sums, x):
            return jax.tree.map(jnp.add, sums, jax.grad(plain)(weights, scale, x)), None

        zeros = jax.tree.map(jnp.zeros_like, weights)
        return jax.lax.scan(add, zeros, jnp.stack([x, jnp.sin(x)]))[0]

    traced = jax.jit(added_up).trace(*arrays())
    lean = with_lean_loops(traced, program_of(traced))
    given = jax.tree.leaves(arrays())
    for one in lean:
        same(jaxpr_as_fun(one.jaxpr)(*given), jaxpr_as_fun(traced.jaxpr)(*given))
    assert temporaries(lean[-1]) < 0.7 * temporaries(traced)


@pytest.mark.parametrize(
    "fn",
    [
        lambda weights, scale, x: (x * scale).sum(),
        lambda weights, scale, x: in_turns(perceptron, weights, scale, x).sum(),
        lambda weights, scale, x: jax.lax.fori_loop(0, 3, lambda _, x: x * scale, x).sum(),
    ],
)
def test_without_gradients_of_scans_there_are_none(fn):
    traced = jax.jit(fn).trace(*arrays())
    assert not with_lean_loops(traced, program_of(traced))


def test_stacks_that_others_read_stay():
    def loss(weights, scale, x):
        return jax.lax.scan(lambda x, w: (perceptron(x, w), x), x, weights)[1].sum()

    traced = jax.jit(lambda *given: (loss(*given), jax.grad(loss)(*given))).trace(*arrays())
    given = jax.tree.leaves(arrays())
    for one in with_lean_loops(traced, program_of(traced)):
        same(jaxpr_as_fun(one.jaxpr)(*given), jaxpr_as_fun(traced.jaxpr)(*given))


def back_and_forth(weights, scale, x):
    """Each scan reads what the one before stacked, in the other direction."""

    def turn(x, one):
        x = jnp.cos(x) + one.sum(0) * scale
        return x, jnp.stack([jnp.sin(x), jnp.cos(x), x * x])

    stack = x[None, None] * weights["up"][:, :, None, :1]
    for number in range(4):
        stack = jax.lax.scan(turn, x, stack, reverse=number % 2 == 0)[1]
    return stack.sum()


def test_a_scan_is_of_one_pair():
    traced = jax.jit(back_and_forth).trace(*arrays())
    lean = with_lean_loops(traced, program_of(traced))
    given = jax.tree.leaves(arrays())
    assert lean
    for one in lean:
        same(jaxpr_as_fun(one.jaxpr)(*given), jaxpr_as_fun(traced.jaxpr)(*given))


def test_a_step_that_fits():
    step = jax.grad(plain)
    needs = rj.fit(step, *arrays(), memory_budget="1TiB").plain.needs
    budget = int(0.5 * needs.total)
    options = {"compilations": 6, "evaluations": 500, "slices": False}
    fitted = rj.fit(step, *arrays(), memory_budget=budget, **options)
    assert fitted.best.way.loops
    assert fitted.best.needs.total <= budget
    assert "loops keep less of each turn" in str(fitted)
    jitted = jax.jit(fitted.function, compiler_options=dict(fitted.compiler_options))
    close(jitted(*arrays()), jax.jit(step)(*arrays()))


def test_it_is_remembered(tmp_path):
    step = jax.grad(plain)
    needs = rj.fit(step, *arrays(), memory_budget="1TiB").plain.needs
    for is_known in (False, True):
        budget = int(0.4 * needs.total)
        ours = rj.jit(step, memory_budget=budget, cache=tmp_path, top_k=6, slices=False)
        close(ours(*arrays()), jax.jit(step)(*arrays()))
        assert ours.reports[0].cached == is_known


def test_a_frontier_goes_through_loops():
    found = rj.frontier(jax.grad(plain), *arrays(), shares=(0.9,), evaluations=200)
    assert any(one.way.loops for one in found.points)

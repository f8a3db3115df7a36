"""Plans of loops' bodies: gradients that are added up over microbatches, which none can be sliced
of, since batch statistics tie all examples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regal_jax as rj
from regal_jax.compiler.barriers.emission import program_of
from regal_jax.compiler.barriers.kernels import kernels
from regal_jax.compiler.recompute.emission import ANY, program_in_runs
from regal_jax.compiler.recompute.inner import WORTH, held, inner_of
from regal_jax.compiler.recompute.work import repeated_flops
from tests.compiler.ways.test_fit import close

LAYERS, PARTS, ROWS, WIDTH = 6, 2, 256, 32


def arrays(seed=0):
    random = np.random.default_rng(seed)
    weights = jnp.asarray(random.normal(0, 0.3, (LAYERS, WIDTH, WIDTH)), jnp.float32)
    batch = jnp.asarray(random.normal(0, 1, (PARTS, ROWS, WIDTH)), jnp.float32)
    return list(weights), batch


def normalized(x):
    return (x - x.mean(0)) * jax.lax.rsqrt(x.var(0) + 1e-5)


def loss(weights, x):
    for w in weights:
        x = x + jnp.tanh(normalized(x @ w))
    return jnp.mean(x**2)


def gradients(weights, batch):
    def add(sums, x):
        return jax.tree.map(jnp.add, sums, jax.grad(loss)(weights, x)), None

    return jax.lax.scan(add, jax.tree.map(jnp.zeros_like, weights), batch)[0]


def inner_loop(fn, *args):
    program = program_of(jax.jit(fn).trace(*args))
    return inner_of(kernels(program), kernels)


@pytest.fixture(scope="module")
def plain():
    return rj.fit(gradients, *arrays(), memory_budget="1TiB").plain.needs


@pytest.fixture(scope="module")
def budget(plain):
    return plain.arguments + int(0.75 * (plain.total - plain.arguments))


def test_the_body_has_carries_that_are_donated():
    (loop,) = (inner := inner_loop(gradients, *arrays())).loops
    assert loop.scan.length == PARTS
    donated = ~inner.kernels.graph.persistent & (inner.kernels.graph.producer < 0)
    assert inner.kernels.graph.size[donated].tolist() == LAYERS * [4 * WIDTH * WIDTH]


def test_the_loop_that_holds_most_at_any_depth():
    def twice(weights, batch):
        def outer(x, part):
            x, _ = jax.lax.scan(lambda c, y: (jnp.sin(c) + y, None), x, part[:3])
            return x, gradients(weights, jnp.stack([part, part]))

        return jax.lax.scan(outer, batch[0, 0], batch)

    lengths = [loop.scan.length for loop in inner_loop(twice, *arrays()).loops]
    assert lengths == [PARTS, 2]


@pytest.mark.parametrize("fn", [loss, lambda w, x: jax.lax.scan(lambda c, y: (c + y, c), x, x)])
def test_there_may_be_none_that_is_worth_it(fn):
    weights, batch = arrays()
    assert inner_loop(fn, weights, batch[0]) is None


def test_little_beside_the_rest_is_not_worth_it():
    def more(weights, batch):
        far = jax.grad(loss)(weights, jnp.tile(batch[0], (20, 1)))
        return far, gradients(weights, batch)

    traced = jax.jit(more).trace(*arrays())
    assert inner_loop(more, *arrays()) is None
    own = inner_loop(gradients, *arrays())
    assert held(own.kernels) <= WORTH * held(kernels(program_of(traced)))


def test_a_body_in_runs_makes_the_same():
    inner, args = inner_loop(gradients, *arrays()), arrays()
    runs = [*range(inner.kernels.graph.num_ops), 0]
    run = inner.whole(program_in_runs(inner.kernels, runs, ANY))
    close(run(*jax.tree.leaves(args)), jax.tree.leaves(gradients(*args)))
    product = 2 * ROWS * WIDTH**2
    assert repeated_flops(inner.kernels, runs) >= product
    assert repeated_flops(inner.kernels, runs[:-1]) == 0


def test_a_step_that_fits_by_its_loop(plain, budget):
    fitted = rj.fit(gradients, *arrays(), memory_budget=budget, compilations=6, evaluations=500)
    assert fitted.best.way.inner
    assert fitted.best.needs.total <= budget
    assert "kernels of a loop's body run again" in str(fitted)
    jitted = jax.jit(fitted.function, compiler_options=dict(fitted.compiler_options))
    close(jitted(*arrays()), jax.jit(gradients)(*arrays()))


def test_it_is_remembered(budget, tmp_path):
    for is_known in (False, True):
        ours = rj.jit(gradients, memory_budget=budget, cache=tmp_path, top_k=6)
        close(ours(*arrays()), jax.jit(gradients)(*arrays()))
        assert "inside" in ours.reports[0].chosen
        assert ours.reports[0].cached == is_known


def test_a_frontier_goes_through_bodies():
    found = rj.frontier(gradients, *arrays(), shares=(0.6,), slices=False, evaluations=200)
    assert any(one.way.inner for one in found.points)

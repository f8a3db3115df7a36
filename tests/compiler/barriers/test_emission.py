import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.extend.core import jaxpr_as_fun

from regal_jax.compiler.barriers.carried import through_cuts
from regal_jax.compiler.barriers.emission import in_segments, program_of
from regal_jax.errors import CompilerError
from tests.compiler.barriers.programs import kernels_of, random_function, random_order, traced


def everywhere(trace, order=None):
    """The traced function in an order, cut wherever it can be."""
    kernels = kernels_of(trace)
    order = range(kernels.graph.num_ops) if order is None else order
    cuts = range(1, kernels.graph.num_ops)
    return in_segments(trace, kernels, order, through_cuts(kernels, order, cuts))


def op_by_op(trace, *arguments):
    """What a traced function returns where no ops are fused: XLA's fusions round differently."""
    with jax.disable_jit():
        return jaxpr_as_fun(trace.jaxpr)(*arguments)


def same(one, other):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    assert all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.data())
def test_any_order_with_any_cuts_computes_the_same(seed, data):
    trace = traced(random_function(seed))
    kernels = kernels_of(trace)
    order = random_order(kernels.graph, seed)
    places = st.sets(st.integers(1, max(1, kernels.graph.num_ops - 1)))
    cuts = sorted(data.draw(places)) if kernels.graph.num_ops > 1 else []
    made = in_segments(trace, kernels, order, through_cuts(kernels, order, cuts))
    arguments = np.random.default_rng(seed).normal(size=(2, 4, 4)).astype(np.float32)
    same(op_by_op(made, *arguments), op_by_op(trace, *arguments))


def test_the_cuts_are_in_the_program():
    def chain(a, b):
        for _ in range(3):
            a = jnp.tanh(a @ b)
        return a

    made = everywhere(traced(chain))
    assert (
        made.lower().as_text().count("optimization_barrier")
        == kernels_of(traced(chain)).graph.num_ops - 1
    )
    assert "optimization_barrier" not in traced(chain).lower().as_text()


def test_what_is_made_again_is_no_operand_of_a_barrier():
    def activations(a, b):
        x = a @ b
        return jnp.tanh(x) @ b + jnp.exp2(x)

    trace = traced(activations)
    kernels = kernels_of(trace)
    (through,) = through_cuts(kernels, range(kernels.graph.num_ops), [1]).values()
    product = kernels.program.ops[kernels.ops[0]].writes[0]
    assert [value for value in through if value >= kernels.program.num_arguments] == [product]


PROGRAMS = {
    "scan": lambda a, b: jax.lax.scan(lambda x, y: (jnp.tanh(x @ b), y + x.sum()), a, b),
    "cond": lambda a, b: jax.lax.cond(a.sum() > 0, lambda: a @ b, lambda: b) + a @ a,
    "nested jit": lambda a, b: jax.jit(lambda x: jnp.sin(x @ b))(a) + a,
    "custom derivative": jax.grad(lambda a, b: jax.nn.relu(a @ b @ a).sum()),
    "rematerialised": jax.grad(lambda a, b: jax.checkpoint(lambda x: jnp.tanh(x @ b) @ b)(a).sum()),
    "literal result": lambda a, b: (a @ b, 1.0, a),
    "a result twice": lambda a, b: (a @ b,) * 2,
    "barriers": lambda a, b: jnp.add(*jax.lax.optimization_barrier((a @ b, b @ a))),
    "constants": lambda a, b: a @ np.eye(4, dtype=np.float32) + b,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_survive(name):
    trace = traced(PROGRAMS[name])
    arguments = np.random.default_rng(0).normal(size=(2, 4, 4)).astype(np.float32)
    made = everywhere(trace)
    same(op_by_op(made, *arguments), op_by_op(trace, *arguments))
    compiled = made.lower().compile()(*arguments), trace.lower().compile()(*arguments)
    for one, other in zip(*map(jax.tree.leaves, compiled), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_random_keys_survive():
    def noise(key, x):
        first, second = jax.random.split(key)
        return jax.random.normal(first, (4, 4)) @ x + jax.random.normal(second, (4, 4))

    key, x = jax.random.key(0), jnp.ones((4, 4))
    trace = jax.jit(noise).trace(key, x)
    np.testing.assert_allclose(everywhere(trace).lower().compile()(key, x), noise(key, x), 1e-6)


def test_donation_survives():
    shape = jax.ShapeDtypeStruct((64, 64), jnp.float32)
    trace = traced(lambda a, b: (a + jnp.tanh(a @ b), b), shape, shape, donate_argnums=0)
    assert "tf.aliasing_output" in everywhere(trace).lower().as_text()


def test_names_survive_calls():
    def layer(a, b):
        with jax.named_scope("inner"):
            return jnp.tanh(a @ b)

    def model(a, b):
        with jax.named_scope("outer"):
            return jax.jit(layer)(a, b) @ b

    text = everywhere(traced(model)).lower().as_text(debug_info=True)
    assert "outer/inner" in text or "outer/jit(layer)/inner" in text


def test_rematerialised_work_is_not_merged_with_the_first():
    block = jax.checkpoint(lambda x, b: jnp.sin(jnp.sin(x @ b) @ b))
    trace = traced(jax.grad(lambda a, b: block(block(a, b), b).sum()))
    text = everywhere(trace).lower().compile().as_text()
    plain = trace.lower().compile().as_text()
    assert text.count(" dot(") == plain.count(" dot(")


def test_effects_are_refused():
    def printing(a, b):
        jax.debug.print("{}", a[0, 0])
        return a @ b

    with pytest.raises(CompilerError, match="side effects"):
        program_of(traced(printing))


def test_keyword_and_static_arguments_survive():
    @functools.partial(jax.jit, static_argnames="times")
    def power(a, *, b, times):
        for _ in range(times):
            a = a @ b
        return a

    a, b = np.random.default_rng(0).normal(size=(2, 4, 4)).astype(np.float32)
    made = everywhere(power.trace(a, b=b, times=3)).lower().compile()
    np.testing.assert_allclose(made(a, b=b), power(a, b=b, times=3), rtol=1e-6)

"""A flat program's ops are the graph's, and running them one by one is running the function."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from regal_jax.errors import ImporterError
from regal_jax.graphs.importers.jax.flat_program import flat_program, signature
from regal_jax.graphs.importers.jax.program import from_jax
from tests.flax_train_steps import TRAIN_STEPS
from tests.graphs.importers.jax.functions import FUNCTIONS, TABLE, assert_same, data

CASES = {**FUNCTIONS, **TRAIN_STEPS}


def kinds(program):
    return tuple(op.steps[-1].equation.primitive.name for op in program.ops)


def edges(program):
    producer = {value: index for index, op in enumerate(program.ops) for value in op.writes}
    pairs = ((producer.get(value), i) for i, op in enumerate(program.ops) for value in op.reads)
    return {pair for pair in pairs if pair[0] is not None}


def run_in_order(program, *args):
    known = {**dict(enumerate(jax.tree.leaves(args))), **program.constants}
    for op in program.ops:
        known.update(zip(op.writes, op(*[known[value] for value in op.reads]), strict=True))
    return program.outputs({value: known[value] for value in program.bases()})


@pytest.mark.parametrize("name", CASES)
def test_ops_and_their_edges_are_the_graphs(name):
    fn, args = CASES[name]()
    program, graph = flat_program(fn, *args), from_jax(fn, *args)
    assert kinds(program) == graph.op_kinds
    assert edges(program) == {(u, v) for u, _, v in graph.edges.tolist()}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_its_ops_one_by_one_compute_the_function(name):
    fn, args = FUNCTIONS[name]()
    assert_same(run_in_order(flat_program(fn, *args), *args), fn(*args))


def test_keywords_and_results_without_ops():
    program = flat_program(lambda x, *, y: {"both": (y, x.reshape(-1)), "one": 1}, data(2, 3), y=2)
    assert program.ops == ()
    result = program.outputs({0: data(2, 3), 1: 2})
    assert_same(result, {"both": (2, data(2, 3).reshape(-1)), "one": 1})


def test_effects_depend_on_one_another_as_in_the_graph():
    def fn(x):
        jax.debug.print("{}", x[0])
        jax.debug.print("{}", x[1])
        return x + 1

    program, graph = flat_program(fn, data(4)), from_jax(fn, data(4))
    assert kinds(program) == graph.op_kinds
    assert edges(program) == {(u, v) for u, _, v in graph.edges.tolist()}
    first, second = (op for op in program.ops if op.has_effects)
    assert set(first.writes) & set(second.reads)
    assert first(jnp.zeros(1)) == (None,)


def test_a_barrier_ties_no_output_to_the_inputs_of_another():
    def fn(x, y):
        x, y = jax.lax.optimization_barrier((jnp.sin(x), jnp.cos(y)))
        return jnp.exp(x), jnp.log(y)

    program = flat_program(fn, 1.0, 1.0)
    assert kinds(program) == ("sin", "cos", "exp", "log")
    assert edges(program) == {(0, 2), (1, 3)}


def signatures(fn, *args):
    program = flat_program(fn, *args)
    return [signature(program, op) for op in program.ops]


def test_equal_ops_share_a_signature():
    one, other = signatures(
        lambda x, y: (x.reshape(-1) * 2.0, y.reshape(-1) * 2.0), data(2, 3), data(2, 3)
    )
    assert one == other
    one, other = signatures(lambda x: (x * TABLE, x * (TABLE + 1)), data(4, 8))
    assert one == other  # constants are inputs
    layers = signatures(lambda x, w: jnp.tanh(jnp.tanh(x @ w) @ w), data(3, 3), data(3, 3))
    assert len(layers) == 4
    assert len(set(layers)) == 2


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, y: (x * 0.0, y * -0.0),
        lambda x, y: (x * 2.0, y * 3.0),
        lambda x, y: (x - 2.0, 2.0 - y),
        lambda x, y: (x.sum(0), y.sum(1)),
        lambda x, y: (x * x, x * y),
        lambda x, y: (x.reshape(-1) * 2, y * 2),
        lambda x, y: (jnp.sin(x), jnp.sin(y[:1])),
        lambda x, y: (jax.lax.map(jnp.sin, x), jax.lax.map(jnp.cos, y)),
    ],
)
def test_different_ops_have_different_signatures(fn):
    found = signatures(fn, data(3, 3), data(3, 3))
    assert len(found) == len(set(found)) > 1


def test_an_untraceable_function_is_one_clear_line():
    with pytest.raises(ImporterError, match="JAX can't trace this function"):
        flat_program(lambda x: x if x > 0 else -x, np.float32(1.0))

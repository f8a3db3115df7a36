"""Orders of the instructions of modules."""

import jax
import jax.numpy as jnp
import pytest

from regal_jax.compiler.xla.module_orders import instruction_order, order_of, reordered, sequenced
from regal_jax.errors import CompilerError
from regal_jax.graphs.importers.xla.module import computation_graph
from regal_jax.graphs.importers.xla.text import parse_module
from regal_jax.search.orders import rules
from tests.compiler import programs

DIAMOND = """
  x = f32[8] parameter(0)
  a = f32[8] sine(x)
  b = f32[8] cosine(x)
  t = (f32[8], f32[8]) tuple(a, b)
  g = f32[8] get-tuple-element(t), index=1
  c = f32[8] negate(a), control-predecessors={b}
  ROOT r = f32[8] add(c, g)"""


def compiled_module(function, *args):
    return parse_module(jax.jit(function).lower(*args).compile().as_text())


def test_what_loops_run_comes_before_them_and_fusions_bodies_have_no_order():
    module = compiled_module(programs.looped, programs.WEIGHTS, programs.ROWS)
    names = sequenced(module)
    assert names[-1] == module.entry
    (loop,) = (
        one
        for name in names
        for one in module.computations[name].instructions.values()
        if one.opcode == "while"
    )
    assert {*loop.called("body"), *loop.called("condition")} <= set(names)
    fused = {
        name
        for computation in module.computations.values()
        for one in computation.instructions.values()
        if one.opcode == "fusion"
        for name in one.called("calls")
    }
    assert fused
    assert fused.isdisjoint(names)


def test_ops_run_as_given_and_other_instructions_as_soon_as_they_can():
    module = programs.hand_made(DIAMOND)
    graph = computation_graph(module, "e")
    assert graph.op_names == ("a", "b", "c", "r")
    order = instruction_order(module.computations["e"], graph, [1, 0, 2, 3])
    assert order == ("x", "b", "a", "t", "g", "c", "r")


@pytest.mark.parametrize("seed", range(5))
def test_every_order_of_a_real_module_keeps_operands_and_controls_before(seed):
    module = compiled_module(programs.branches, programs.WEIGHTS, programs.ROWS)
    computation = module.computations[module.entry]
    graph = computation_graph(module, module.entry)
    ops = rules.random_order(graph, seed).tolist()
    order = instruction_order(computation, graph, ops)
    assert sorted(order) == sorted(computation.instructions)
    place = {name: index for index, name in enumerate(order)}
    for one in computation.instructions.values():
        for other in (*one.operands, *one.called("control-predecessors")):
            assert place[other] < place[one.name]
    places = [place[graph.op_names[op]] for op in ops]
    assert places == sorted(places)


def test_a_reordered_module_stands_in_its_order_and_computes_the_same():
    module = programs.hand_made(DIAMOND)
    order = ("x", "b", "a", "t", "g", "c", "r")
    changed = reordered(module, {"e": order})
    assert order_of(changed) == {"e": order}
    assert dict(changed.computations["e"].instructions) == dict(
        module.computations["e"].instructions
    )
    assert reordered(changed, order_of(module)).computations == module.computations


def test_a_module_without_a_schedule_is_refused():
    module = parse_module(jax.jit(jnp.sin).lower(1.0).compiler_ir("hlo").as_hlo_text())
    with pytest.raises(CompilerError, match="has no schedule"):
        order_of(module)

"""The graph that orders are searched on."""

import jax
import numpy as np
import pytest

from regal_jax.compiler.xla.buffers import allocate
from regal_jax.compiler.xla.module_orders import instruction_order, reordered
from regal_jax.compiler.xla.search_graph import search_graph
from regal_jax.graphs.importers.xla.module import computation_graph
from regal_jax.graphs.importers.xla.text import parse_module
from regal_jax.search.orders import rules
from tests.compiler import programs
from tests.compiler.programs import hand_made
from tests.graphs.cases import peak


def test_a_chain_of_elementwise_ops_needs_one_buffer():
    module = hand_made("""
  x = f32[8] parameter(0)
  a = f32[8] reverse(x), dimensions={0}
  b = f32[8] sine(a)
  c = f32[8] cosine(b)
  ROOT r = f32[2] slice(c), slice={[0:2]}""")
    assert peak(computation_graph(module, "e")) == 32 + 64
    assert peak(search_graph(module, "e")) == 32 + 40


def test_an_operand_with_other_readers_is_not_overwritten():
    module = hand_made("""
  x = f32[8] parameter(0)
  a = f32[8] reverse(x), dimensions={0}
  b = f32[8] sine(a)
  c = f32[16] concatenate(a, b), dimensions={0}
  ROOT r = f32[2] slice(c), slice={[0:2]}""")
    assert peak(search_graph(module, "e")) == 32 + 32 + 32 + 64


def test_a_result_of_the_program_in_an_operands_memory_stays():
    module = hand_made("""
  x = f32[8] parameter(0)
  a = f32[8] reverse(x), dimensions={0}
  b = f32[8] sine(a)
  c = f32[4] slice(x), slice={[0:4]}
  ROOT r = (f32[8], f32[4]) tuple(b, c)""")
    graph = search_graph(module, "e")
    assert peak(graph) == 32 + 32 + 16
    assert peak(graph, np.array([2, 0, 1])) == 32 + 32 + 16


@pytest.mark.parametrize("seed", range(8))
def test_in_any_order_the_graph_needs_what_the_buffers_do_or_a_little_more(seed):
    """More where a result overwrites an operand that others read before, which no graph knows."""
    lowered = jax.jit(programs.branches).lower(programs.WEIGHTS, programs.ROWS)
    module = parse_module(lowered.compile().as_text())
    graph, plain = search_graph(module, module.entry), computation_graph(module, module.entry)
    order = rules.random_order(graph, seed)
    sequence = instruction_order(module.computations[module.entry], graph, order.tolist())
    found = allocate(reordered(module, {module.entry: sequence}))
    held = sum(b.num_bytes for b in found.parts if b.kind == "parameter")
    true = held + max(programs.live_bytes(found, "output", "temporary"))
    assert true - 1024 <= peak(graph, order) <= peak(plain, order)
    assert peak(graph, order) <= 1.25 * true


BESIDE = """
  x = f32[8] parameter(0)
  a = f32[8] reverse(x), dimensions={0}
  b = f32[8] reverse(a), dimensions={0}
  s = (f32[8], f32[16]) all-gather-start(a), dimensions={0}
  c = f32[8] sine(x)
  d = f32[8] cosine(b)
  t = f32[16] all-gather-done(s)
  e = f32[8] tanh(x)
  f = f32[32] concatenate(c, d, t), dimensions={0}
  ROOT r = (f32[8], f32[32]) tuple(e, f)"""


@pytest.mark.parametrize("seed", range(6))
def test_what_ran_beside_a_collective_runs_beside_it_in_any_order(seed):
    module = hand_made(BESIDE)
    graph = search_graph(module, "e")
    order = rules.random_order(graph, seed).tolist()
    names = instruction_order(module.computations["e"], graph, order)
    begin, end = names.index("s"), names.index("t")
    assert set(names[begin + 1 : end]) == {"c", "d"}
    assert set(names[:begin]) == {"x", "a", "b"}


def test_a_collective_s_memory_is_in_use_until_its_last_reader():
    graph = search_graph(hand_made(BESIDE), "e")
    assert peak(graph) == peak(computation_graph(hand_made(BESIDE), "e"))
    assert [graph.op_names[op] for op in range(graph.num_ops)] == list("abscdtef")

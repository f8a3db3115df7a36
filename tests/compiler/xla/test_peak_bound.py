"""The lower bound: its terms by hand, and that no order beats it."""

import jax
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.compiler.xla.live_memory import live_memory
from regal_jax.compiler.xla.peak_bound import peak_bound
from regal_jax.compiler.xla.search_graph import search_graph
from regal_jax.environments.placement.bounds import peak_memory_bound, working_set_bound
from regal_jax.graphs.importers.xla.text import parse_module
from tests.compiler import programs
from tests.compiler.xla import hlo_strategies


def bound_of(body, header=""):
    module = programs.hand_made(body, header=header)
    memory = live_memory(module)
    bound = peak_bound(module, memory)
    names = [memory.steps[memory.values[v].step][1] for v in bound.values]
    return bound, names, memory.steps[bound.step][1]


def test_the_largest_working_set():
    bound, names, step = bound_of(
        """
  x = f32[4] parameter(0)
  a = f32[100] custom-call(x), custom_call_target="f"
  b = f32[50] custom-call(a), custom_call_target="f"
  ROOT r = f32[2] custom-call(b), custom_call_target="f" """
    )
    assert bound == (16 + 600, "working set", 2, 16, bound.values)
    assert (names, step) == (["a", "b"], "b")


def test_a_result_in_its_operands_place_is_counted_once():
    bound, names, _ = bound_of(
        """
  x = f32[4] parameter(0)
  a = f32[100] custom-call(x), custom_call_target="f"
  b = f32[100] sine(a)
  c = f32[1] custom-call(a), custom_call_target="f"
  d = f32[1] custom-call(b), custom_call_target="f"
  ROOT r = f32[1] add(c, d)"""
    )
    # In the order x a c b d, b is made in a's place: only in another one does it cost more.
    assert (bound.num_bytes, bound.term) == (16 + 408, "cut")
    assert sorted(names) == ["b", "c", "d"]


def test_what_another_branch_leaves():
    bound, names, step = bound_of(
        """
  x = f32[1] parameter(0)
  a = f32[100] custom-call(x), custom_call_target="f"
  b = f32[20] custom-call(a), custom_call_target="f"
  c = f32[90] custom-call(x), custom_call_target="f"
  d = f32[10] custom-call(c), custom_call_target="f"
  ROOT r = f32[1] custom-call(b, d), custom_call_target="f" """
    )
    # The first of the branches needs 480 at its peak, the second what the first one leaves beside.
    assert (bound.num_bytes, bound.term) == (4 + 480, "working set")
    bound, names, step = bound_of(
        """
  x = f32[1] parameter(0)
  a = f32[100] custom-call(x), custom_call_target="f"
  b = f32[30] custom-call(a), custom_call_target="f"
  c = f32[30] custom-call(a), custom_call_target="f"
  d = f32[90] custom-call(b), custom_call_target="f"
  e = f32[1] custom-call(d), custom_call_target="f"
  ROOT r = f32[1] custom-call(c, e), custom_call_target="f" """
    )
    # Beside b and d there is c, or still a.
    assert (bound.num_bytes, bound.term, step) == (4 + 4 * (30 + 30 + 90), "cut", "d")
    assert sorted(names) == ["b", "c", "d"]


def test_a_result_can_not_take_the_place_of_a_parameter():
    bound, names, step = bound_of(
        """
  x = f32[100] parameter(0)
  a = f32[100] sine(x)
  ROOT r = f32[2] custom-call(a), custom_call_target="f" """
    )
    assert (bound.num_bytes, names, step) == (808, ["a", "r"], "r")


def test_what_is_there_at_the_start_and_at_the_end():
    bound, names, _ = bound_of(
        """
  x = f32[100] parameter(0)
  y = f32[100] parameter(1)
  k = f32[3] constant({1, 2, 3})
  a = f32[1] custom-call(x, y, k), custom_call_target="f"
  b = f32[100] custom-call(a), custom_call_target="f"
  c = f32[100] custom-call(a), custom_call_target="f"
  ROOT t = (f32[100], f32[100]) tuple(b, c)"""
    )
    assert (bound.num_bytes, bound.term, bound.always) == (812 + 800, "end", 812)
    assert sorted(names) == ["b", "c"]
    bound, names, _ = bound_of(
        """
  x = f32[100] parameter(0)
  y = f32[1] parameter(1)
  a = f32[1] custom-call(y), custom_call_target="f"
  b = f32[100] custom-call(a), custom_call_target="f"
  ROOT t = (f32[1], f32[100]) tuple(a, b)""",
        ", input_output_alias={ {1}: (0, {}, may-alias) }",
    )
    assert (bound.num_bytes, bound.always) == (4 + 400 + 4, 4)
    assert "x" in names or "b" in names


def test_an_update_in_place_is_always_there():
    bound, names, _ = bound_of(
        """
  x = f32[100] parameter(0)
  y = f32[1] parameter(1)
  a = f32[10] custom-call(y), custom_call_target="f"
  b = f32[1] custom-call(a), custom_call_target="f"
  ROOT r = f32[100] custom-call(x, b), custom_call_target="f" """,
        ", input_output_alias={ {}: (0, {}, may-alias) }",
    )
    assert (bound.num_bytes, bound.always, sorted(names)) == (404 + 44, 404, ["a", "b"])


def test_the_state_of_a_loop_is_there_in_its_body():
    module = parse_module(
        jax.jit(programs.looped).lower(programs.WEIGHTS, programs.ROWS).compile().as_text()
    )
    memory = live_memory(module)
    bound = peak_bound(module, memory)
    assert memory.steps[bound.step][0] != module.entry
    assert bound.num_bytes > sum(w.size * 4 for w in programs.WEIGHTS) + 2 * programs.ROWS.size * 4
    assert bound.num_bytes <= memory.live_bytes().max()


@given(hlo_strategies.texts(), st.integers(0, 2**32))
def test_no_order_beats_it(text, seed):
    module = parse_module(text)
    bound = peak_bound(module, live_memory(module)).num_bytes
    assert bound <= live_memory(module).live_bytes().max()
    other = hlo_strategies.another_order(module, seed)
    assert bound <= live_memory(other).live_bytes().max()
    assert bound == peak_bound(other, live_memory(other)).num_bytes


@given(hlo_strategies.texts(donations=True))
def test_it_is_at_most_the_peak_with_donations(text):
    module = parse_module(text)
    memory = live_memory(module)
    assert peak_bound(module, memory).num_bytes <= memory.live_bytes().max()


@given(hlo_strategies.texts())
def test_it_is_at_least_that_of_the_graph_where_nothing_works_in_place(text):
    module = parse_module(text.replace("sine(", "custom-call(").replace("add(", "custom-call("))
    of_graph = working_set_bound(search_graph(module, module.entry), 1)
    assert peak_bound(module, live_memory(module)).num_bytes >= of_graph


def test_it_is_at_most_that_of_the_graph_and_scalar_constants():
    module = parse_module(
        jax.jit(programs.branches).lower(programs.WEIGHTS, programs.ROWS).compile().as_text()
    )
    of_graph = peak_memory_bound(search_graph(module, module.entry), 1)
    assert peak_bound(module, live_memory(module)).num_bytes <= of_graph + 64

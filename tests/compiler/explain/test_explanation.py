"""Explanations: of a module by hand, and of compiled functions."""

import inspect

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.compiler.explain.explanation import PRESENT, Allocated, explain_module
from regal_jax.compiler.xla.buffers import allocate
from regal_jax.compiler.xla.candidates import Search
from regal_jax.compiler.xla.packing import temporary_bytes
from regal_jax.errors import CompilerError
from regal_jax.graphs.importers.xla.text import parse_module
from tests.compiler import programs
from tests.compiler.xla import hlo_strategies

BY_HAND = """HloModule step, is_scheduled=true

ENTRY e {
  w = f32[64] parameter(0), metadata={op_name="params['w']"}
  k = f32[2] constant({1, 2})
  a = f32[100] custom-call(w, k), custom_call_target="f", metadata={op_name="jit(step)/a" source_file="/m.py" source_line=5}
  b = f32[10] custom-call(a), custom_call_target="f"
  c = f32[200] custom-call(b), custom_call_target="f"
  ROOT r = f32[20] custom-call(c, a), custom_call_target="f"
}
"""  # noqa: E501


def explained(text, **options):
    return explain_module(parse_module(text), text, **options)


def explained_function(fn, *args, **options):
    return explained(jax.jit(fn, **options).lower(*args).compile().as_text())


def test_a_module_by_hand():
    one = explained(BY_HAND)
    assert (one.module, len(one.steps), one.peak_step) == ("step", 6, 5)
    assert one.peak == 4 * (64 + 2 + 100 + 200 + 20)
    live = [(x.name, x.num_bytes, x.kind, x.shape) for x in one.at_peak]
    assert live == [
        ("c", 800, "temporary", "f32[200]"),
        ("a", 400, "temporary", "f32[100]"),
        ("params['w']", 256, "parameter", "f32[64]"),
        ("r", 80, "output", "f32[20]"),
        ("k", 8, "constant", "f32[2]"),
    ]
    c, a, w, r, k = one.at_peak
    assert [x.made for x in (c, a, w, r, k)] == [4, 2, 0, 5, 1]
    assert [x.since for x in (c, a, w, r, k)] == [4, 2, 0, 5, 0]
    assert [x.last_reader for x in (c, a, w, r, k)] == [5, 5, 2, None, 2]
    assert [x.idle for x in (c, a, w, r, k)] == [0, 0, None, 0, None]
    assert (one.live(4)[1].name, one.live(4)[1].idle, one.live(4)[1].next_reader) == ("a", 2, 5)
    assert str(one.steps[2].source) == "/m.py:5"
    assert one.steps[2].op_name == "jit(step)/a"
    timeline = {name: values.tolist() for name, values in one.timeline.items()}
    assert timeline == {
        "parameters and constants": [264] * 6,
        "outputs": [0, 0, 0, 0, 0, 80],
        "temporaries": [0, 0, 400, 440, 1240, 1200],
    }
    assert one.bound.num_bytes == one.peak
    assert one.reducible == 0
    assert one.orders == ()
    assert one.allocated == Allocated(256, 8, 80, 1280)
    assert one.fragmentation == 264 + 80 + 1280 - one.peak


def test_measured_temporaries_count_where_known():
    one = explained(BY_HAND, temp_bytes=2000)
    assert one.allocated.temporaries == 2000
    assert one.fragmentation == 264 + 80 + 2000 - one.peak


def test_a_module_without_a_schedule():
    with pytest.raises(CompilerError, match="module step has no schedule"):
        explained(BY_HAND.replace(", is_scheduled=true", ""))


@given(hlo_strategies.texts(donations=True), st.data())
def test_what_is_live_sums_up_to_what_is_in_use(text, data):
    one = explained(text)
    assert sum(live.num_bytes for live in one.at_peak) == one.peak
    assert one.peak == one.memory.live_bytes().max()
    assert one.reducible >= 0
    step = data.draw(st.integers(0, len(one.steps) - 1))
    live = one.live(step)
    assert sum(x.num_bytes for x in live) == sum(values[step] for values in one.timeline.values())
    assert live == sorted(live, key=lambda x: -x.num_bytes)
    for x in live:
        assert x.next_reader is None or step < x.next_reader <= x.last_reader
        assert (x.idle is None) <= (x.next_reader is None)


def test_a_search_compares_orders():
    text = jax.jit(programs.branches).lower(programs.WEIGHTS, programs.ROWS).compile().as_text()
    one = explained(text, search=Search(methods=("depth_first", "breadth_first")))
    present, *others = one.orders
    assert (present.name, present.peak) == (PRESENT, one.peak)
    assert present.temporaries == one.allocated.estimate
    assert {order.name for order in others} == {"depth_first", "breadth_first"}
    assert others == sorted(others, key=lambda order: order.temporaries)
    assert others[0].peak < present.peak
    assert all(order.peak >= one.bound.num_bytes for order in one.orders)


def test_a_program_at_its_bound_has_no_other_order():
    one = explained(BY_HAND, search=Search(methods=("depth_first",)))
    assert [order.name for order in one.orders] == [PRESENT]


def line_of(comment):
    lines = inspect.getsource(inspect.getmodule(line_of)).splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {comment}"))


def loss(params, x):
    """The barrier keeps XLA from fusing all into one loop, in which no wide array is in memory."""
    wide = jnp.sin(x[:, :, None] * params["a"])  # the widest array
    wide = jax.lax.optimization_barrier(wide)
    return (jnp.tanh(wide) * wide).sum()


PARAMS = {"a": jax.ShapeDtypeStruct((512,), jnp.float32)}
BATCH = jax.ShapeDtypeStruct((64, 32), jnp.float32)


def test_the_widest_array_of_a_function_is_of_its_line():
    one = explained_function(loss, PARAMS, BATCH)
    source = {one.steps[live.made].source for live in one.at_peak if live.num_bytes >= 2**20}
    assert {(s.file, s.function) for s in source} == {(__file__, "loss")}
    assert line_of("the widest array") in {s.line for s in source}
    assert {"params['a']", "x"} <= {live.name for live in one.at_peak}


def donations_of(explanation):
    return [(r.name, r.saves) for r in explanation.remedies if r.advice == "donate"]


def test_donation_is_advised_until_it_is_done():
    params = {"a": jax.ShapeDtypeStruct((64, 64), jnp.float32)}

    def step(params, x):
        return jax.tree.map(
            lambda w, g: w - g, params, jax.grad(lambda p: (x @ p["a"]).sum())(params)
        )

    x = jax.ShapeDtypeStruct((8, 64), jnp.float32)
    assert donations_of(explained_function(step, params, x)) == [("params", 64 * 64 * 4)]
    donated = explained_function(step, params, x, donate_argnums=0)
    assert donations_of(donated) == []
    assert donated.allocated.outputs == 0
    assert donated.allocated.parameters == 64 * 64 * 4 + 8 * 64 * 4


def test_a_scan():
    one = explained_function(programs.looped, programs.WEIGHTS, programs.ROWS)
    inside = [step for step in one.steps if step.computation != one.steps[0].computation]
    assert inside
    assert one.steps[one.peak_step].computation != one.steps[0].computation
    assert sum(live.num_bytes for live in one.at_peak) == one.peak
    module = parse_module(
        jax.jit(programs.looped).lower(programs.WEIGHTS, programs.ROWS).compile().as_text()
    )
    assert one.allocated.estimate == temporary_bytes(allocate(module))

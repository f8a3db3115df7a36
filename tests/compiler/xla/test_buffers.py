"""Buffers of modules: by hand, and against what XLA allocates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from regal_jax.compiler.xla.buffers import allocate, leaf_range
from regal_jax.compiler.xla.packing import temporary_bytes
from regal_jax.graphs.importers.xla.text import parse_module
from tests.compiler import programs
from tests.compiler.programs import hand_made, in_memory, live_bytes, writers


def spans(allocation, kind):
    """{last writer: (bytes, first, last)}"""
    return {
        writers(group)[-1]: (group[0].num_bytes, group[0].first, group[-1].last)
        for group in in_memory(allocation, kind)
    }


def test_a_buffer_is_in_use_from_its_maker_to_its_last_reader():
    found = allocate(
        hand_made(
            """
  x = f32[8] parameter(0)
  k = f32[100] constant({...})
  a = f32[4] slice(x), slice={[0:4]}
  b = f32[2] slice(a), slice={[0:2]}
  t = (f32[4], f32[2]) tuple(a, b)
  g = f32[4] get-tuple-element(t), index=0
  c = f32[8] concatenate(g, g), dimensions={0}
  ROOT r = f32[16] concatenate(c, c), dimensions={0}"""
        )
    )
    assert [name for _, name in found.steps] == ["x", "k", "a", "b", "t", "g", "c", "r"]
    assert spans(found, "parameter") == {"x": (32, 0, 7)}
    assert spans(found, "constant") == {"k": (400, 0, 7)}
    assert spans(found, "output") == {"r": (64, 7, 7)}
    assert spans(found, "temporary") == {"a": (16, 2, 6), "b": (8, 3, 3), "c": (32, 6, 7)}
    assert live_bytes(found, "temporary") == [0, 0, 16, 24, 16, 16, 48, 32]


def test_the_last_elementwise_reader_writes_in_place():
    found = allocate(
        hand_made(
            """
  x = f32[8] parameter(0)
  a = f32[8] reverse(x), dimensions={0}
  b = f32[8] sine(a)
  c = f32[8] cosine(a)
  d = f32[8] reverse(c), dimensions={0}
  e = f32[8] add(d, b)
  ROOT r = f32[4] slice(e), slice={[0:4]}"""
        )
    )
    joined = {tuple(writers(group)) for group in in_memory(found, "temporary")}
    assert joined == {("a", "c"), ("b",), ("d", "e")}  # b is not the last to read a
    assert live_bytes(found, "temporary") == [0, 32, 64, 64, 96, 64, 32]


def test_fusions_write_in_place_where_all_they_do_with_an_operand_is_elementwise():
    fused = """f {
  p = f32[8] parameter(0)
  q = f32[8] parameter(1)
  v = f32[8] reverse(q), dimensions={0}
  ROOT s = f32[8] add(p, v)
}"""
    body = """
  x = f32[8] parameter(0)
  a = f32[8] reverse(x), dimensions={0}
  b = f32[8] reverse(a), dimensions={0}
  c = f32[8] fusion(%s), kind=kLoop, calls=f
  ROOT r = f32[4] slice(c), slice={[0:4]}"""
    for operands, partner in (("a, b", "a"), ("b, a", "b")):
        found = allocate(hand_made(body % operands, others=fused))
        joined = {tuple(writers(group)) for group in in_memory(found, "temporary")}
        assert (partner, "c") in joined


def test_updates_are_always_in_place_alone_and_as_the_root_of_a_fusion():
    fused = """f {
  p = f32[8] parameter(0)
  u = f32[2] parameter(1)
  i = s32[] parameter(2)
  ROOT s = f32[8] dynamic-update-slice(p, u, i)
}"""
    found = allocate(
        hand_made(
            """
  x = f32[8] parameter(0)
  u = f32[2] parameter(1)
  i = s32[] parameter(2)
  a = f32[8] reverse(x), dimensions={0}
  b = f32[8] dynamic-update-slice(a, u, i)
  c = f32[8] fusion(b, u, i), kind=kLoop, calls=f
  ROOT r = f32[4] slice(c), slice={[0:4]}""",
            others=fused,
        )
    )
    (group,) = in_memory(found, "temporary")
    assert writers(group) == ["a", "b", "c"]


LOOP = """
body {
  s = (s32[], f32[8]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  y = f32[8] get-tuple-element(s), index=1
  w = f32[32] broadcast(n), dimensions={}
  z = f32[8] slice(w), slice={[0:8]}
  v = f32[8] reverse(z), dimensions={0}
  ROOT t = (s32[], f32[8]) tuple(n, v)
}
cond {
  s = (s32[], f32[8]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  ROOT p = pred[] compare(n, n), direction=LT
}"""


def test_the_state_of_a_loop_is_one_buffer_and_its_body_runs_where_it_is_called():
    found = allocate(
        hand_made(
            """
  x = f32[8] parameter(0)
  n = s32[] parameter(1)
  a = f32[8] reverse(x), dimensions={0}
  m = s32[] copy(n)
  t = (s32[], f32[8]) tuple(m, a)
  l = (s32[], f32[8]) while(t), condition=cond, body=body
  g = f32[8] get-tuple-element(l), index=1
  ROOT r = f32[4] slice(g), slice={[0:4]}""",
            others=LOOP,
        )
    )
    names = [name for _, name in found.steps]
    assert names.index("p") < names.index("w") < names.index("g")
    state = next(b for b in found.parts if ("e", "a") in b.writers)
    assert ("body", "v") in state.writers
    assert (state.first, state.last) == (names.index("a"), len(names) - 1)
    wide = next(b for b in found.parts if ("body", "w") in b.writers)
    assert (wide.num_bytes, wide.last) == (128, names.index("z"))


def test_branches_give_their_results_in_one_buffer():
    branch = """%s {
  p = f32[8] parameter(0)
  ROOT q = f32[8] %s(p)
}"""
    found = allocate(
        hand_made(
            """
  x = f32[8] parameter(0)
  i = s32[] parameter(1)
  c = f32[8] conditional(i, x, x), branch_computations={b1, b2}
  ROOT r = f32[4] slice(c), slice={[0:4]}""",
            others=branch % ("b1", "sine") + "\n" + branch % ("b2", "cosine"),
        )
    )
    ((result,),) = in_memory(found, "temporary")
    assert set(result.writers) == {("b1", "q"), ("b2", "q")}


def test_a_donated_parameter_leaves_its_memory_after_its_last_reader():
    found = allocate(
        hand_made(
            """
  x = f32[8] parameter(0)
  a = f32[4] slice(x), slice={[0:4]}
  b = f32[8] concatenate(a, a), dimensions={0}
  ROOT r = (f32[8]) tuple(b)""",
            header=", input_output_alias={ {0}: (0, {}, may-alias) }",
        )
    )
    ((output,),) = in_memory(found, "output")
    assert output.donor.writers == [("e", "x")]
    assert (output.donor.first, output.donor.last) == (0, 1)


def test_parts_of_a_shape():
    module = hand_made("  ROOT x = (f32[1], (f32[2], f32[3]), f32[4]) parameter(0)")
    shape = module.computations["e"].instructions["x"].shape
    assert leaf_range(shape, []) == range(4)
    assert leaf_range(shape, [1]) == range(1, 3)
    assert leaf_range(shape, [1, 1]) == range(2, 3)


def sliding(x):
    """Slices, updates in place and a convolution."""
    y = x.at[3].set(x[4] * 2)
    z = jnp.convolve(y.ravel(), jnp.ones(9), mode="same").reshape(x.shape)
    return (jnp.tanh(z) @ y.T).sum(0), z.max(1)


def conditional(x):
    return jax.lax.cond(x.sum() > 0, lambda y: y[::-1], lambda y: jnp.sort(y @ y.T), x)


def looked_up(tables, rows):
    """Gradients of lookups: zeros are copied once a table, and scattered into."""
    return jax.grad(lambda ts: sum(jnp.sin(t[row]).sum() for t, row in zip(ts, rows, strict=True)))(
        tables
    )


PROGRAMS = {
    "looked up": (
        looked_up,
        (
            [jax.ShapeDtypeStruct((1000, 64), jnp.float32)] * 4,
            [jax.ShapeDtypeStruct((32,), jnp.int32)] * 4,
        ),
        (),
    ),
    "branches": (programs.branches, (programs.WEIGHTS, programs.ROWS), ()),
    "loop": (programs.looped, (programs.WEIGHTS, programs.ROWS), ()),
    "gradient of a loop": (
        jax.grad(lambda *args: programs.looped(*args).sum()),
        (programs.WEIGHTS, programs.ROWS),
        (),
    ),
    "donated": (programs.donating, (jax.ShapeDtypeStruct((64, 64), jnp.float32),) * 2, (0,)),
    "sliding": (sliding, (jax.ShapeDtypeStruct((128, 128), jnp.float32),), ()),
    "conditional": (conditional, (jax.ShapeDtypeStruct((128, 128), jnp.float32),), ()),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("scheduler", ["DEFAULT", "MEMORY_OPTIMIZED"])
def test_the_estimate_is_close_to_what_xla_allocates(name, scheduler):
    function, shapes, donated = PROGRAMS[name]
    compiled = (
        jax.jit(function, donate_argnums=donated)
        .lower(*shapes)
        .compile({"xla_cpu_scheduler_type": f"CPU_SCHEDULER_TYPE_{scheduler}"})
    )
    expected = temporary_bytes(allocate(parse_module(compiled.as_text())))
    true = compiled.memory_analysis().temp_size_in_bytes
    np.testing.assert_allclose(expected, true, rtol=0.02, atol=1024)

"""XLA modules: by hand, and compiled from JAX against XLA's own numbers."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regal_jax as rj
from regal_jax.errors import ImporterError
from regal_jax.graphs.importers.xla.module import _Lowering
from regal_jax.graphs.importers.xla.text import parse_module
from tests.graphs.cases import peak


def entry(body, *, header="", others=""):
    return f"HloModule m, is_scheduled=true{header}\n{others}\nENTRY e {{\n{body}\n}}\n"


def sizes(graph, kind):
    op = graph.op_kinds.index(kind)
    return [int(graph.size[t]) for t in graph.outputs.row(op)]


def test_aliases_are_other_names():
    graph = rj.from_hlo(
        entry(
            """
  x = f32[4] parameter(0)
  c = f32[] constant(2)
  k = f32[100] constant({...})
  a = f32[4] add(x, x)
  b = f32[2,2] bitcast(a)
  t = (f32[2,2], f32[4]) tuple(b, x)
  g = f32[2,2] get-tuple-element(t), index=0
  ROOT m = f32[2,2] multiply(g, g)"""
        )
    )
    assert graph.op_names == ("a", "m")
    assert graph.size.tolist() == [16, 16, 16]  # the unread constant is gone
    assert graph.producer.tolist() == [-1, 0, 1]
    assert peak(graph) == 48


def test_fusions_of_several_results_own_several_tensors():
    fused = """f {
  p = f32[8] parameter(0)
  s = f32[8] sine(p)
  q = f32[2] slice(p), slice={[0:2]}
  ROOT t = (f32[8], f32[2]) tuple(s, q)
}"""
    graph = rj.from_hlo(
        entry(
            """
  x = f32[8] parameter(0)
  y = (f32[8], f32[2]) fusion(x), kind=kLoop, calls=f
  a = f32[8] get-tuple-element(y), index=0
  ROOT b = f32[8] negate(a)""",
            others=fused,
        )
    )
    assert sizes(graph, "fusion") == [32, 8]
    assert graph.flops.tolist() == [8, 8]
    assert peak(graph) == 32 + 32 + 32  # the slice dies after the fusion


def test_control_predecessors_are_waited_for():
    graph = rj.from_hlo(
        entry(
            """
  x = f32[8] parameter(0)
  a = f32[8] negate(x)
  b = f32[8] sine(x), control-predecessors={a}
  ROOT c = f32[8] add(a, b)"""
        )
    )
    assert [0, 1] in graph.edges[:, [0, 2]].tolist()
    assert sorted(graph.size.tolist()) == [0, 32, 32, 32, 32]


BODY = """body {
  s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[64] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  u = f32[64] sine(v)
  w = f32[64] cosine(u)
  z = f32[64] add(w, u)
  ROOT r = (s32[], f32[64]) tuple(j, z)
}
cond {
  s.1 = (s32[], f32[64]) parameter(0)
  i.1 = s32[] get-tuple-element(s.1), index=0
  ten = s32[] constant(10)
  ROOT lt = pred[] compare(i.1, ten), direction=LT
}
"""


def test_a_while_updates_its_state_in_place_and_works_in_its_body():
    trips = 'backend_config={"known_trip_count":{"n":"10"}}'
    graph = rj.from_hlo(
        entry(
            f"""
  x = f32[64] parameter(0)
  zero = s32[] constant(0)
  i = s32[] copy(zero)
  y = f32[64] negate(x)
  early = f32[64] sine(y)
  t = (s32[], f32[64]) tuple(i, y)
  w = (s32[], f32[64]) while(t), condition=cond, body=body, {trips}
  v = f32[64] get-tuple-element(w), index=1
  ROOT out = f32[64] add(v, early)""",
            others=BODY,
        )
    )
    loop = graph.op_names.index("w")
    assert sizes(graph, "while") == [0]
    assert graph.workspace[loop] == 512  # u and w; j and z are the body's results
    assert graph.flops[loop] == 10 * (1 + 3 * 64)
    early = graph.op_names.index("early")
    assert [early, loop] in graph.edges[:, [0, 2]].tolist()
    reads = {int(graph.producer[t]) for t in graph.inputs.row(graph.op_names.index("out"))}
    assert reads == {graph.op_names.index("y"), loop, early}


def test_a_conditional_works_in_its_largest_branch():
    branches = """small {
  a = f32[4] parameter(0)
  ROOT b = f32[4] negate(a)
}
large {
  a.1 = f32[4] parameter(0)
  c = f32[400] broadcast(a.1), dimensions={}
  d = f32[400] sine(c)
  ROOT e = f32[4] slice(d), slice={[0:4]}
}"""
    graph = rj.from_hlo(
        entry(
            """
  p = s32[] parameter(0)
  x = f32[4] parameter(1)
  ROOT r = f32[4] conditional(p, x, x), branch_computations={small, large}""",
            others=branches,
        )
    )
    assert graph.workspace.tolist() == [3200]
    assert graph.flops.tolist() == [400]


def donated(reader_first):
    lines = ["  a = f32[64] sine(x)", "  n = f32[64] negate(x)"]
    lines = lines if reader_first else lines[::-1]
    body = "  x = f32[64] parameter(0)\n" + "\n".join(lines)
    body += "\n  ROOT t = (f32[64], f32[64]) tuple(n, a)"
    return rj.from_hlo(entry(body, header=", input_output_alias={ {0}: (0, {}, may-alias) }"))


def test_a_donated_parameter_is_updated_in_place_after_its_readers():
    graph = donated(reader_first=True)
    assert graph.op_names == ("a", "n")
    assert sizes(graph, "negate") == []
    assert [0, 1] in graph.edges[:, [0, 2]].tolist()
    assert peak(graph) == 256 + 256


def test_a_donated_parameter_that_is_read_later_is_kept():
    graph = donated(reader_first=False)
    assert sizes(graph, "negate") == [256]
    assert peak(graph) == 3 * 256


def test_effects_are_kept():
    graph = rj.from_hlo(
        entry(
            """
  x = f32[4] parameter(0)
  k = token[] after-all()
  o = token[] outfeed(x, k), outfeed_config="a(b{"
  ROOT y = f32[4] negate(x)"""
        )
    )
    assert graph.op_kinds == ("outfeed", "negate")


def compiled(fn, *shapes, **options):
    arguments = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    return jax.jit(fn, **options).lower(*arguments).compile()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("branching", [False, True])
def test_products_need_what_xla_allocates(seed, branching):
    """Products reuse no buffer in place; but a temporary may lie where the output will be."""
    sides = (64 * np.random.default_rng(seed).integers(1, 9, 7)).tolist()
    if branching:
        shapes = [(128, side) for side in sides[:3]] + [(side, 128) for side in sides[:3]]
        program = compiled(_branches, (128, 128), *shapes)
    else:
        program = compiled(_chain, (64, sides[0]), *itertools.pairwise(sides))
    memory = program.memory_analysis()
    builder = _entry(program)
    saved = builder.body_workspace() - memory.temp_size_in_bytes
    sizes = {t.size for t in builder.tensors if t.size <= memory.output_size_in_bytes}
    assert saved in {0} | sizes


def _branches(x, *ws):
    return _chain(x, *[(x @ w) @ v for w, v in zip(ws[:3], ws[3:], strict=True)])


def _chain(x, *factors):
    for factor in factors:
        x = x @ factor
    return x


def _entry(program):
    module = parse_module(program.as_text())
    return _Lowering(module, module.computations[module.entry]).lowered()


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, w: jnp.tanh(x @ w).sum(0),
        lambda x, w: jax.grad(lambda v: jnp.mean(jnp.tanh(x @ v)))(w),
        lambda x, w: jnp.sort(x @ w, axis=0),
    ],
)
def test_flops_are_xlas_own(fn):
    program = compiled(fn, (64, 256), (256, 128))
    analysis = program.cost_analysis()
    graph = rj.from_hlo(program)
    assert graph.flops.sum() == pytest.approx(analysis["flops"], rel=0.01)


def test_program_order_is_xlas_schedule_and_valid():
    def step(w, x):
        gradient = jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
        return w - 0.1 * gradient, jax.lax.scan(lambda c, _: (jnp.sin(c), None), x, None, 5)[0]

    program = compiled(step, (256, 64), (32, 256), donate_argnums=0)
    graph = rj.from_hlo(program)
    assert np.all(graph.edges[:, 0] < graph.edges[:, 2])
    assert graph.extra[""]["is_scheduled"]
    order = list(parse_module(program.as_text()).computations.values())[-1].instructions
    places = [list(order).index(name) for name in graph.op_names]
    assert places == sorted(places)
    best = rj.optimize(graph, num_devices=1, evaluations=200)
    assert max(best.peak_memory) <= peak(graph)


def test_text_file_lowered_and_compiled_agree(tmp_path):
    program = jax.jit(lambda x: jnp.sin(x) @ x).lower(jnp.ones((8, 8)))
    text = program.compile().as_text()
    (tmp_path / "module.txt").write_text(text)
    graph = rj.from_hlo(program)
    for other in (rj.from_hlo(text), rj.import_graph(tmp_path / "module.txt")):
        assert other.replace(source=graph.source) == graph


def test_damaged_serialized_modules_are_one_error_and_no_noise(capfd):
    """XLA's reader writes stack traces."""
    program = jax.jit(jnp.tanh).lower(jnp.ones(4)).compile()
    data = program.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()
    faults = []
    for place in range(0, len(data), 37):
        try:
            rj.from_hlo(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        except ImporterError as error:
            faults.append(str(error))
    assert len(faults) > 10
    assert not any("\n" in fault for fault in faults)
    assert capfd.readouterr() == ("", "")


def test_serialized_modules():
    program = jax.jit(lambda x: jnp.sin(x) @ x).lower(jnp.ones((8, 8))).compile()
    data = program.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()
    assert rj.from_hlo(data).op_kinds == rj.from_hlo(program).op_kinds
    with pytest.raises(ImporterError, match="not a serialized HLO module"):
        rj.from_hlo(b"\x00\x01 nonsense")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("HloModule m\nENTRY e {\n  a = f32[2] add(b, c)\n}", "malformed HLO module"),
        ("HloModule m\nENTRY e {\n  a = q7[2] iota()\n}", "unknown HLO element type"),
        ("missing.hlo", "missing.hlo: no such file"),
        ("missing.hlo.pb", "missing.hlo.pb: no such file"),
        (3, "int is no HLO module"),
    ],
)
def test_bad_input_is_one_line(source, message):
    with pytest.raises(ImporterError, match=message) as caught:
        rj.from_hlo(source)
    assert "\n" not in str(caught.value)


def test_a_large_module_is_read_in_linear_time():
    lines = ["  x0 = f32[64] parameter(0)"]
    lines += [f"  x{i} = f32[64] add(x{i - 1}, x{max(i - 7, 0)})" for i in range(1, 5000)]
    lines[-1] = lines[-1].replace("  x", "  ROOT x", 1)
    assert rj.from_hlo(entry("\n".join(lines))).num_ops == 4999

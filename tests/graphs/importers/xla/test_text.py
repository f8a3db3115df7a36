"""Reading HLO text."""

import pytest

from regal_jax.errors import ImporterError
from regal_jax.graphs.importers.xla.text import Array, element_bits, num_bytes, parse_module

LONG = """HloModule jit_f, is_scheduled=true, entry_computation_layout={(f32[2,3]{1,0})->f32[2,3]{1,0}}

%fused (p.1: f32[2,3]) -> (f32[2,3], s4[6]) {
  %p.1 = f32[2,3]{1,0:T(8,128)} parameter(0)
  %a = f32[2,3]{1,0} add(f32[2,3]{1,0} %p.1, f32[2,3]{1,0} %p.1), metadata={op_name="f(x)/{a, b}"}
  %b = s4[6]{0} convert(f32[2,3]{1,0} %a)
  ROOT %t = (f32[2,3]{1,0}, /*index=1*/s4[6]{0}) tuple(%a, %b)
}

ENTRY %main.5 (x.1: f32[2,3]) -> f32[2,3] {
  %x.1 = f32[2,3]{1,0} parameter(0), sharding={replicated}
  %c = f32[] constant(3)
  %f = (f32[2,3]{1,0}, s4[6]{0}) fusion(f32[2,3]{1,0} %x.1), kind=kLoop, calls=%fused
  ROOT %g = f32[2,3]{1,0} get-tuple-element((f32[2,3]{1,0}, s4[6]{0}) %f), index=0, control-predecessors={%c, %x.1}
}
"""  # noqa: E501

SHORT = LONG.replace("%", "").replace("f32[2,3]{1,0} p.1, f32[2,3]{1,0} p.1", "p.1, p.1")


@pytest.mark.parametrize("text", [LONG, SHORT])
def test_both_forms(text):
    module = parse_module(text)
    entry = module.computations[module.entry]
    assert (module.name, module.entry, module.is_scheduled) == ("jit_f", "main.5", True)
    assert list(entry.instructions) == ["x.1", "c", "f", "g"]
    assert entry.root == "g"
    fusion = entry.instructions["f"]
    assert fusion.operands == ("x.1",)
    assert fusion.called("calls") == ["fused"]
    assert fusion.shape == (Array("f32", (2, 3)), Array("s4", (6,)))
    assert num_bytes(fusion.shape) == 27
    last = entry.instructions["g"]
    assert last.attribute("index") == "0"
    assert last.called("control-predecessors") == ["c", "x.1"]
    assert module.computations["fused"].instructions["a"].operands == ("p.1", "p.1")


def test_nested_tuples_tokens_and_dynamic_sizes():
    text = """HloModule m
ENTRY e {
  p = ((f32[<=4,2], token[]), pred[], (bf16[3]{0})) parameter(0)
  ROOT t = token[] after-all()
}"""
    shape = parse_module(text).computations["e"].instructions["p"].shape
    inner = (Array("f32", (4, 2)), Array("token", ()))
    assert shape == (inner, Array("pred", ()), (Array("bf16", (3,)),))
    assert num_bytes(shape) == 32 + 1 + 6


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [("f32", 32), ("bf16", 16), ("pred", 8), ("s4", 4), ("u2", 2), ("f8e4m3fn", 8), ("c128", 128)],
)
def test_element_types(dtype, bits):
    assert element_bits(dtype) == bits


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello", "no whole ENTRY"),
        (LONG[:-3], "no whole ENTRY"),
        ("HloModule m\nENTRY e {\n  gibberish\n}", "line 3: expected an instruction"),
        ("HloModule m\nENTRY e {\n  a = f32[2] add(b, c\n}", "line 3: .*open parenthesis"),
        ("HloModule m\nENTRY e {\n}", "line 3: a computation without instructions"),
    ],
)
def test_malformed_text_is_an_error_of_one_line(text, message):
    with pytest.raises(ImporterError, match=message) as caught:
        parse_module(text)
    assert "\n" not in str(caught.value)


def module(*computations):
    return "\n\n".join(("HloModule m, is_scheduled=true", *computations)) + "\n"


def calling(name, *called, entry=False):
    lines = ["  p = f32[4] parameter(0)"]
    lines += [f"  c{i} = f32[4] call(p), to_apply=%{one}" for i, one in enumerate(called)]
    head = f"{'ENTRY ' * entry}%{name} (p: f32[4]) -> f32[4] {{"
    return "\n".join([head, *lines, "  ROOT r = f32[4] negate(p)", "}"])


def of(shape):
    """The entry, its parameter of another shape."""
    return calling("main", entry=True).replace("f32[4] par", f"{shape} par")


MAIN = calling("main", "c", entry=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (module(calling("main", "main", entry=True)), "'main' calls itself"),
        (module(calling("c", "c"), MAIN), "'c' calls itself"),
        (module(calling("b", "c"), calling("c", "b"), MAIN), "' calls itself"),
        (
            module(
                calling("c0"),
                *(calling(f"c{i + 1}", f"c{i}") for i in range(50_000)),
                calling("main", "c50000", entry=True),
            ),
            "'c64': calls nested deeper than 64",
        ),
        (
            module(
                calling("c0"),
                *(calling(f"c{i + 1}", f"c{i}", f"c{i}") for i in range(40)),
                calling("main", "c40", entry=True),
            ),
            "runs more than 10000000 steps",
        ),
        (
            module(of("(" * 50_000 + "f32[4]" + ")" * 50_000)),
            "deeper",
        ),
        (
            module(of(f"f32[{'9' * 5000}]")),
            "a dimension that is no size",
        ),
        (module(of("f32[-4]")), "a dimension that is no size"),
        (
            module(of(f"f32[{','.join(['9' * 11] * 3)}]")),
            "more than 2..53",
        ),
        (module(of(f"f{'9' * 30}[4]")), "more than 2..53"),
    ],
    ids=range(10),
)
def test_modules_without_an_end_are_refused(text, message):
    with pytest.raises(ImporterError, match=message):
        parse_module(text)


def test_deep_but_finite_calls_are_read():
    from regal_jax.compiler.explain.explain import explain
    from regal_jax.graphs.importers.xla.module import from_hlo

    chain = [calling(f"c{i + 1}", f"c{i}") for i in range(61)]
    text = module(calling("c0"), *chain, calling("main", "c61", entry=True))
    assert from_hlo(text).num_ops
    assert explain(text).peak


def test_lines_end_where_lines_end():
    """Not at the other characters that Python takes for ends of lines."""
    metadata = ', metadata={op_name="a\u2028b\x85c\x0bd\x1ce"}'
    text = module(calling("main", entry=True)).replace("negate(p)", f"negate(p){metadata}")
    assert list(parse_module(text).computations["main"].instructions) == ["p", "r"]
    assert parse_module(text.replace("\n", "\r\n")).entry == "main"


SPACES = """
HloModule scratch, is_scheduled=true
ENTRY main {
  x = f32[256,128]{1,0:T(8,128)} parameter(0)
  start = (f32[256,128]{1,0:T(8,128)}, f32[256,128]{1,0:T(8,128)S(1)}, u32[]{:S(2)}) copy-start(x)
  near = f32[256,128]{1,0:T(8,128)S(1)} copy-done(start)
  far = f32[256,128]{1,0:T(8,128)S(5)} negate(near)
  ROOT out = f32[256,128]{1,0:T(8,128)} negate(near)
}
"""


def test_what_lies_elsewhere_takes_no_device_memory():
    computation = parse_module(SPACES).computations["main"]
    shapes = {name: one.shape for name, one in computation.instructions.items()}
    array = 256 * 128 * 4
    assert {name: num_bytes(shape) for name, shape in shapes.items()} == {
        "x": array,
        "start": array,
        "near": 0,
        "far": 0,
        "out": array,
    }
    assert shapes["near"].elements == shapes["x"].elements
    assert shapes["far"].space == 5

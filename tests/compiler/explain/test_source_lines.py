"""Lines of Python of instructions: by hand in both of XLA's formats, and of real functions."""

import inspect

import jax
import jax.numpy as jnp
import optax
import pytest

from regal_jax.compiler.explain.source_lines import Origin, SourceLine, is_library, origins
from regal_jax.graphs.importers.xla.text import parse_module

TABLES = """HloModule m, is_scheduled=true

FileNames
1 "/home/me/train.py"
2 "/env/lib/python3.11/site-packages/flax/linen/linear.py"
3 "/home/\\303\\251t\\303\\251/it\\'s.py"

FunctionNames
1 "step"
2 "Dense.__call__"
3 "helper.<locals>.<lambda>"

FileLocations
1 {file_name_id=1 function_name_id=1 line=10 end_line=11 column=4 end_column=9}
2 {file_name_id=2 function_name_id=2 line=20 end_line=20 column=4 end_column=9}
3 {file_name_id=3 function_name_id=3 line=30 end_line=30 column=4 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=3}
4 {file_location_id=2 parent_frame_id=1}

"""
"""XLA writes parents plus one: 2 is called by 1, 3 by 2; 1 and 4 have no caller."""

UNSHIFTED = """
1 {file_location_id=1 parent_frame_id=0}
2 {file_location_id=2 parent_frame_id=1}

"""
STEP = SourceLine("/home/me/train.py", 10, "step")
HELPER = SourceLine("/home/été/it's.py", 30, "helper.<locals>.<lambda>")
DENSE = SourceLine("/env/lib/python3.11/site-packages/flax/linen/linear.py", 20, "Dense.__call__")


def origins_of(body, head=TABLES, others=""):
    text = f"{head}{others}\nENTRY e {{\n{body}\n}}\n"
    found = origins(parse_module(text), text)
    return {name: origin for (computation, name), origin in found.items() if computation == "e"}


def test_the_innermost_frame_outside_of_libraries_counts():
    found = origins_of(
        r"""
  p = f32[2] parameter(0), metadata={op_name="params[\'w\']"}
  a = f32[2] sine(p), metadata={op_name="jit(step)/sin" stack_frame_id=1}
  b = f32[2] sine(a), metadata={op_name="jit(step)/jvp(Dense)/sin" stack_frame_id=2}
  c = f32[2] sine(b), metadata={op_name="x" stack_frame_id=3}
  d = f32[2] sine(c), metadata={op_name="y" stack_frame_id=4}
  f = f32[2] sine(d), metadata={op_name="z" stack_frame_id=9}
  ROOT g = f32[2] sine(f)"""
    )
    assert found["p"] == Origin("params['w']", None)
    assert found["a"] == Origin("jit(step)/sin", STEP)
    assert found["b"] == Origin("jit(step)/jvp(Dense)/sin", STEP)
    assert found["c"].source == HELPER
    assert found["d"].source == DENSE  # there is no other frame
    assert found["f"] == Origin("z", None)
    assert found["g"] == Origin("", None)


def test_parents_as_they_are():
    head = TABLES.partition("\n1 {file_location_id")[0] + UNSHIFTED
    body = '  ROOT b = f32[2] constant(0), metadata={op_name="b" stack_frame_id=2}'
    assert origins_of(body, head)["b"].source == STEP


def test_the_older_format():
    found = origins_of(
        """
  a = f32[2] constant(0), metadata={op_type="c" op_name="c" source_file="/x/y.py" source_line=7}
  ROOT b = f32[2] sine(a), metadata={op_name="b" source_file="/x/y.py"}""",
        "HloModule m, is_scheduled=true\n",
    )
    assert found["a"] == Origin("c", SourceLine("/x/y.py", 7))
    assert found["b"] == Origin("b", None)
    assert str(found["a"].source) == "/x/y.py:7"


def test_fusions_are_of_their_body_and_copies_of_their_operand():
    others = """
own {
  p = f32[2] parameter(0)
  ROOT r = f32[2] sine(p), metadata={op_name="body" stack_frame_id=3}
}
inner {
  p = f32[2] parameter(0)
  a = f32[2] sine(p), metadata={op_name="inner" stack_frame_id=1}
  ROOT r = f32[2] sine(a)
}
move {
  p = f32[2] parameter(0)
  ROOT r = f32[2] transpose(p), dimensions={0}
}
unknown {
  p = f32[2] parameter(0)
  ROOT r = f32[2] sine(p)
}"""
    found = origins_of(
        """
  p = f32[2] parameter(0), metadata={op_name="x"}
  a = f32[2] fusion(p), kind=kLoop, calls=own, metadata={op_name="a" stack_frame_id=1}
  b = f32[2] fusion(a), kind=kLoop, calls=own
  c = f32[2] fusion(b), kind=kLoop, calls=inner
  d = f32[2] copy(c)
  f = f32[2] bitcast(d)
  g = f32[2] fusion(f), kind=kLoop, calls=move
  h = f32[2] fusion(g), kind=kLoop, calls=unknown
  k = f32[2] copy(p)
  ROOT r = f32[2] sine(h)""",
        others=others,
    )
    assert found["a"] == Origin("a", STEP)
    assert found["b"] == Origin("body", HELPER)
    assert found["c"] == found["d"] == found["f"] == found["g"] == Origin("inner", STEP)
    assert found["h"] == Origin("", None)
    assert found["k"] == Origin("x", None)


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("/home/me/train.py", False),
        ("/home/me/python3/train.py", False),
        ("C:\\me\\train.py", False),
        ("<ipython-input-3>", False),
        ("/env/lib/python3.11/site-packages/optax/_src/update.py", True),
        ("C:\\env\\Lib\\site-packages\\jax\\numpy.py", True),
        ("/usr/lib/python3/dist-packages/x.py", True),
        ("/usr/lib/python3.11/functools.py", True),
        ("/src/jax/jax/_src/numpy/ufuncs.py", True),
    ],
)
def test_libraries(file, expected):
    assert is_library(file) is expected


def layer(w, x):
    return jnp.tanh(x @ w)  # the line of tanh


def step(w, x):
    gradient = jax.grad(lambda w: layer(w, x).sum())(w)
    updates, _ = optax.sgd(0.1).update(gradient, optax.sgd(0.1).init(w))
    return optax.apply_updates(w, updates)  # the line of the update


def line_of(comment):
    lines = inspect.getsource(inspect.getmodule(line_of)).splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {comment}"))


def test_lines_of_this_file_are_found_in_a_compiled_function():
    arguments = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((64, 64), (32, 64))]
    text = jax.jit(step).lower(*arguments).compile().as_text()
    module = parse_module(text)
    found = origins(module, text)
    assert len(found) == sum(len(one.instructions) for one in module.computations.values())
    lines = {origin.source for origin in found.values() if origin.source}
    assert SourceLine(__file__, line_of("the line of tanh"), "layer") in lines
    assert SourceLine(__file__, line_of("the line of the update"), "step") in lines
    assert {line.file for line in lines} == {__file__}
    names = {
        found[module.entry, name].op_name for name in module.computations[module.entry].instructions
    }
    assert {"w", "x"} <= names

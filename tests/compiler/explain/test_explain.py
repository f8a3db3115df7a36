"""``explain`` on every kind of source, and what it says where it can't."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

import regal_jax as rj
from regal_jax.compiler.explain.explain import explain, explain_named
from regal_jax.compiler.xla.candidates import Search
from regal_jax.compiler.xla.jit import RescheduleWarning
from regal_jax.errors import CompilerError, ImporterError, OptionError

W, X = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((32, 32), (8, 32)))


def product(w, x):
    return jnp.tanh(x @ w) @ w


def same(one, other):
    return (one.module, one.steps, one.peak) == (other.module, other.steps, other.peak)


def test_functions_lowered_and_compiled_agree():
    jitted = jax.jit(product)
    compiled = jitted.lower(W, X).compile()
    one = explain(jitted, W, X)
    statistics = compiled.memory_analysis()
    assert one.allocated.measured == statistics.temp_size_in_bytes
    assert one.allocated.parameters == statistics.argument_size_in_bytes
    assert one.module == "jit_product"
    for source, arguments in (
        (product, (W, X)),
        (product, (np.zeros((32, 32), np.float32), jnp.zeros((8, 32)))),
        (jitted.lower(W, X), ()),
        (compiled, ()),
    ):
        assert same(explain(source, *arguments), one)
    assert explain(product, W, x=X).peak == one.peak


def test_texts_and_files_agree(tmp_path):
    compiled = jax.jit(product).lower(W, X).compile()
    one, text = explain(compiled), compiled.as_text()
    (tmp_path / "m.txt").write_text(text)
    module = compiled.runtime_executable().hlo_modules()[0]
    (tmp_path / "m.pb").write_bytes(module.as_serialized_hlo_module_proto())
    for source in (text, tmp_path / "m.txt", str(tmp_path / "m.txt"), tmp_path / "m.pb"):
        other = explain(source)
        assert same(other, one)
        assert other.allocated.measured is None


def test_static_arguments_stay_static():
    jitted = jax.jit(lambda x, n: x**n, static_argnums=1)
    assert explain(jitted, X, 3).allocated.parameters == 8 * 32 * 4


def test_rescheduled_functions_are_compiled_in_their_own_order():
    function = rj.jit(product, methods=("depth_first",), cache=None)
    explain(function, W, X)
    assert len(function.reports) == 1


def test_a_search():
    one = explain(product, W, X, search=Search(methods=("depth_first",)))
    assert one.orders[0].name == "present"
    assert explain(product, W, X).orders == ()


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (
            "HloModule m\nENTRY e {\n  ROOT a = f32[2] parameter(0)\n}\n",
            CompilerError,
            "no schedule",
        ),
        (
            "HloModule m, is_scheduled=true\nENTRY e {\n  a = f32[2] add(b, c)\n}",
            ImporterError,
            "malformed",
        ),
        (
            "HloModule m, is_scheduled=true\nENTRY e {\n  a = f32[2",
            ImporterError,
            "HLO text: line 3",
        ),
        ("none.txt", ImporterError, "none.txt: no such file"),
        (b"abc", ImporterError, "not a serialized HLO module"),
        (3, ImporterError, "explain: int is no program"),
        (None, ImporterError, "explain: NoneType is no program"),
    ],
)
def test_bad_sources_are_one_line(source, error, message):
    with pytest.raises(error, match=message) as raised:
        explain(source)
    assert "\n" not in str(raised.value)


def test_only_functions_take_arguments():
    lowered = jax.jit(product).lower(W, X)
    for source in (lowered, lowered.compile()):
        with pytest.raises(OptionError, match="a lowered or compiled function takes no arguments"):
            explain(source, W)
    with pytest.raises(OptionError, match="only functions take arguments"):
        explain("HloModule m", W)


def test_side_effects_of_rescheduled_functions():
    def printing(x):
        jax.debug.print("{}", x.sum())
        return x

    with pytest.raises(CompilerError, match="side effects"):
        explain(rj.jit(printing, cache=None, strict=True), X)
    with pytest.warns(RescheduleWarning, match="side effects"):
        found = explain(rj.jit(printing, cache=None), X)
    assert found.peak == explain(jax.jit(printing), X).peak


MODEL = """
import jax, jax.numpy as jnp
from helper_of_model import shape
{blank}
def product(w, x):
    return jnp.tanh(x @ w) @ w

def program():
    return product, (shape(16, 16), shape(4, 16))

def single():
    return jnp.sin, shape(7)

def lowered():
    return jax.jit(product).lower(*program()[1])

def nothing():
    return 3

def wrong():
    return product, (shape(3), shape(4))
"""
HELPER = """
import jax, jax.numpy as jnp
def shape(*dims):
    return jax.ShapeDtypeStruct(dims, jnp.float32)
"""


@pytest.fixture
def model(tmp_path):
    (tmp_path / "a_model.py").write_text(MODEL.format(blank=""))
    (tmp_path / "helper_of_model.py").write_text(HELPER)
    return tmp_path / "a_model.py"


def test_names_of_functions(model, monkeypatch):
    by_path = explain_named(f"{model}:program")
    assert by_path.module == "jit_product"
    assert {step.source.file for step in by_path.steps if step.source} == {str(model)}
    monkeypatch.chdir(model.parent)
    assert explain_named("a_model:program").peak == by_path.peak
    assert explain_named("a_model.py:lowered").peak == by_path.peak
    assert explain_named("a_model:single").allocated.parameters == 28


def test_names_of_files(tmp_path):
    path = tmp_path / "dump:1.txt"
    path.write_text(jax.jit(product).lower(W, X).compile().as_text())
    assert explain_named(str(path)).module == "jit_product"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("{}:nothing", "must return .function, arguments., or a lowered or compiled.*not int"),
        ("{}:wrong", "TypeError: dot_general"),
        ("{}:missing", "AttributeError: .*missing"),
        ("{}x.py:program", "FileNotFoundError"),
        ("no_such_module:program", "ModuleNotFoundError"),
        ("no_such_file", "no_such_file: no such file"),
    ],
)
def test_bad_names(model, name, message):
    with pytest.raises(ImporterError, match=message):
        explain_named(name.format(model))


def test_lines_are_not_those_of_the_same_program_in_the_cache(model, tmp_path):
    names = (
        "jax_compilation_cache_dir",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_compilation_cache_include_metadata_in_key",
    )
    before = {name: getattr(jax.config, name) for name in names}
    jax.config.update(names[0], str(tmp_path / "cache"))
    jax.config.update(names[1], 0.0)
    compilation_cache.reset_cache()
    try:
        lines = []
        for blank in ("", "\n\n\n"):
            model.write_text(MODEL.format(blank=blank))
            one = explain_named(f"{model}:program")
            lines.append({step.source.line for step in one.steps if step.source})
        assert lines[0]
        assert lines[1] == {line + 3 for line in lines[0]}
        assert jax.config.jax_compilation_cache_include_metadata_in_key == before[names[2]]
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()

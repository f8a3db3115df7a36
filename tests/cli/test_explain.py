"""``regal-jax explain``: what it prints and writes, and one line for everything that is wrong."""

import json

import jax
import jax.numpy as jnp
import pytest

import regal_jax as rj
from regal_jax import cli
from regal_jax.cli import explain as explain_command
from regal_jax.compiler.explain.explain import explain
from regal_jax.compiler.explain.text import explanation_text
from tests.reporting.cases import hand_graph, hand_schedule

MODEL = """
import jax, jax.numpy as jnp

def product(w, x):
    return jnp.tanh(x @ w) @ w

def program():
    shape = jax.ShapeDtypeStruct
    return product, (shape((16, 16), jnp.float32), shape((4, 16), jnp.float32))

def raising():
    raise RuntimeError("two" + chr(10) + "lines")
"""


@pytest.fixture
def dump(tmp_path):
    """The text of a compiled function."""
    path = tmp_path / "module.txt"
    w, x = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((16, 16), (4, 16)))
    path.write_text(jax.jit(lambda w, x: jnp.tanh(x @ w) @ w).lower(w, x).compile().as_text())
    return path


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model_of_the_cli.py"
    path.write_text(MODEL)
    return path


def run(*arguments):
    return cli.main(["explain", *(str(argument) for argument in arguments)])


def assert_one_line(capsys):
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("regal-jax: error: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_a_file_is_explained(dump, capsys):
    assert run(dump) == 0
    assert capsys.readouterr().out == explanation_text(explain(dump)) + "\n"


def test_top_and_search(dump, capsys):
    assert run(dump, "--top=2", "--search") == 0
    assert capsys.readouterr().out == explanation_text(explain(dump, search=True), top=2) + "\n"


def test_a_page_is_written(dump, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert run(dump, f"--html={page}") == 0
    assert capsys.readouterr().out.endswith(f"\nwrote {page}\n")
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_a_function_is_compiled_and_explained(model, monkeypatch, capsys):
    assert run(f"{model}:program") == 0
    by_path = capsys.readouterr().out
    assert by_path.startswith("jit_product: peak memory")
    monkeypatch.chdir(model.parent)
    assert run("model_of_the_cli:program") == 0
    assert capsys.readouterr().out == by_path


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("none.txt", "none.txt: no such file"),
        ("none.py:f", "none.py:f: FileNotFoundError"),
        ("no_such_module_at_all:f", "ModuleNotFoundError"),
        ("model_of_the_cli.py:missing", "AttributeError"),
        ("model_of_the_cli.py:raising", "RuntimeError: two lines"),
        ("model_of_the_cli.py:product", "TypeError"),
        ("model_of_the_cli.py", "not the text of an HLO module"),
        ("binary.txt", "not UTF-8"),
        ("binary.pb", "module"),
        ("unscheduled.txt", "has no schedule: compile it"),
        ("cut.txt", "cut off"),
        (".", "is a directory"),
    ],
)
def test_bad_sources_are_one_line(model, dump, capsys, monkeypatch, source, message):
    monkeypatch.chdir(model.parent)
    text = dump.read_text()
    for name in ("binary.txt", "binary.pb"):
        (model.parent / name).write_bytes(bytes(range(256)))
    (model.parent / "unscheduled.txt").write_text(text.replace("is_scheduled=true, ", ""))
    (model.parent / "cut.txt").write_text(text[: text.rindex("  ROOT")])
    assert run(source) == 2
    assert message in assert_one_line(capsys)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--top=0"], "top must be at least 1, got 0"),
        (["--top=x"], "invalid int"),
        (["--html=missing/page.html"], "can't write there"),
        (["--html=."], "is a directory"),
        (["--nonsense"], "unrecognized"),
    ],
)
def test_bad_options_are_found_before_anything_is_compiled(
    dump, tmp_path, capsys, monkeypatch, flags, message
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(explain_command, "explain_named", lambda *_, **__: pytest.fail("explained"))
    assert run(dump, *flags) == 2
    assert message in assert_one_line(capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["module.txt"]


def test_a_failure_writes_nothing(tmp_path, capsys):
    page = tmp_path / "page.html"
    page.write_text("old")
    assert run(tmp_path / "none.txt", f"--html={page}") == 2
    assert page.read_text() == "old"


def test_help(capsys):
    with pytest.raises(SystemExit) as stop:
        run("--help")
    assert stop.value.code == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "usage: regal-jax explain" in out
    assert "package.module:function" in out


def test_json_is_in_bytes(dump, capsys):
    assert run(dump, "--json") == 0
    told, explanation = json.loads(capsys.readouterr().out), explain(dump)
    assert (told["module"], told["peak"]) == (explanation.module, explanation.peak)
    assert sum(one["bytes"] for one in told["live"]) == told["peak"]
    assert told["lower_bound"] == explanation.bound.num_bytes
    assert [one["saves"] for one in told["remedies"]] == [r.saves for r in explanation.remedies]
    assert told["allocated"]["total"] == explanation.allocated.total


def test_a_graph_and_its_schedule_are_explained(tmp_path, capsys):
    graph, schedule, html = (tmp_path / name for name in ("g.json", "s.json", "p.html"))
    rj.save_graph(hand_graph(), graph)
    rj.save_schedule(hand_schedule(), schedule)
    assert run(graph, f"--schedule={schedule}", f"--html={html}", "--top=2") == 0
    out = capsys.readouterr().out
    assert out.startswith("hand: peak memory 153 B, at step 3 of 6, device 0 of 2")
    assert "the largest 2 of 3" in out
    assert out.endswith(f"\nwrote {html}\n")
    assert "step by step" in html.read_text()
    assert run(graph, "--json") == 0
    assert json.loads(capsys.readouterr().out)["peak"] == 156
    assert run(graph, f"--schedule={tmp_path / 'none.json'}") == 2
    assert "no such file" in assert_one_line(capsys)


def test_dimensions_are_of_onnx_models(dump, capsys):
    assert run(dump, "--dimensions=batch=1") == 2
    assert "only ONNX models have --dimensions" in assert_one_line(capsys)
